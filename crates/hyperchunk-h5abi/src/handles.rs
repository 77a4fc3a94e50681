//! Owned HDF5 identifiers, closed on drop, and wrappers of the calls on them.

use crate::errors::failure;
use crate::library::Library;
use crate::static_symbols::is_absent;
use crate::symbols::{ALL_FILES, Herr, Hid, OBJ_DATASET, OBJ_FILE, SPACE_NULL};
use crate::{Result, fail};
use hyperchunk_udf::stub::MAX_RANK;
use std::ffi::{CStr, CString, c_char, c_ulong, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

/// An HDF5 identifier, and the function that closes it on drop.
pub(crate) struct Handle {
    pub(crate) id: Hid,
    close: unsafe extern "C" fn(Hid) -> Herr,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the identifier is ours and open. A failed close cannot be handled, so it is ignored.
        unsafe { (self.close)(self.id) };
    }
}

/// Returns a NUL-terminated copy of a name.
pub(crate) fn c_name(name: &str) -> Result<CString> {
    match CString::new(name) {
        Ok(name) => Ok(name),
        Err(_) => fail!(Syntax, "a name contains a NUL byte"),
    }
}

impl Library {
    fn own(&'static self, id: Hid, close: unsafe extern "C" fn(Hid) -> Herr, what: &str) -> Result<Handle> {
        if id < 0 {
            return Err(failure(self, what));
        }
        Ok(Handle { id, close })
    }

    pub(crate) fn open_file_with(&'static self, path: &CStr, flags: u32, access: Hid) -> Result<Handle> {
        // SAFETY: a NUL-terminated path; 0 is the default access list.
        let id = unsafe { (self.f.file_open)(path.as_ptr(), flags, access) };
        self.own(id, self.f.file_close, "cannot open the file")
    }

    pub(crate) fn object_file(&'static self, object: Hid) -> Result<Handle> {
        if is_absent(self.f.id_file as *const c_void) {
            return self.file_that_lists(object);
        }
        // SAFETY: any identifier may be asked.
        self.own(unsafe { (self.f.id_file)(object) }, self.f.file_close, "the dataset's file")
    }

    /// Returns the application's own identifier of the file that contains `object`, for a program without
    /// `H5Iget_file_id`.
    fn file_that_lists(&'static self, object: Hid) -> Result<Handle> {
        unsafe extern "C" fn keep(_: Hid) -> Herr {
            0
        }
        let files = self.open_ids(ALL_FILES, OBJ_FILE).into_iter();
        match files.into_iter().find(|&file| self.open_ids(file, OBJ_DATASET).contains(&object)) {
            Some(id) => Ok(Handle { id, close: keep }),
            None => fail!(
                Unsupported,
                "cannot find the file of the dataset: this statically linked program lacks H5Iget_file_id, and has no identifier of the file open"
            ),
        }
    }

    /// Returns the open identifiers of a kind in a file, or in all files.
    pub(crate) fn open_ids(&self, file: Hid, kind: u32) -> Vec<Hid> {
        // SAFETY: no pointers.
        let n = unsafe { (self.f.file_object_count)(file, kind) };
        let mut ids = vec![0; usize::try_from(n).unwrap_or(0)];
        // SAFETY: room for that many identifiers.
        let n = unsafe { (self.f.file_object_ids)(file, kind, ids.len(), ids.as_mut_ptr()) };
        ids.truncate(usize::try_from(n).unwrap_or(0));
        ids
    }

    /// Returns the flags with which a file was opened; `H5F_ACC_RDWR` if they cannot be determined.
    pub(crate) fn intent(&self, file: &Handle) -> u32 {
        let mut intent = 0;
        // SAFETY: one live integer.
        let known = unsafe { (self.f.file_intent)(file.id, &raw mut intent) } >= 0;
        if known { intent } else { crate::symbols::ACC_RDWR }
    }

    pub(crate) fn open_dataset(&'static self, at: Hid, name: &CStr) -> Result<Handle> {
        // SAFETY: a NUL-terminated name; 0 is the default access list.
        let id = unsafe { (self.f.dataset_open)(at, name.as_ptr(), 0) };
        self.own(id, self.f.dataset_close, "cannot open it")
    }

    pub(crate) fn create_plist(&'static self, dataset: Hid) -> Result<Handle> {
        // SAFETY: any identifier may be asked.
        self.own(
            unsafe { (self.f.dataset_create_plist)(dataset) },
            self.f.plist_close,
            "its creation properties",
        )
    }

    pub(crate) fn dataset_access_plist(&'static self, dataset: Hid) -> Result<Handle> {
        // SAFETY: any identifier may be asked.
        let id = unsafe { (self.f.dataset_access_plist)(dataset) };
        self.own(id, self.f.plist_close, "its access properties")
    }

    pub(crate) fn new_plist(&'static self, class: &CStr) -> Result<Handle> {
        let class = self.global(class)?;
        // SAFETY: a class identifier.
        self.own(unsafe { (self.f.plist_create)(class) }, self.f.plist_close, "a property list")
    }

    pub(crate) fn access_plist(&'static self, file: Hid) -> Result<Handle> {
        // SAFETY: any identifier may be asked.
        self.own(unsafe { (self.f.file_access_plist)(file) }, self.f.plist_close, "its access properties")
    }

    pub(crate) fn space(&'static self, dims: &[u64]) -> Result<Handle> {
        let rank = i32::try_from(dims.len()).unwrap_or(i32::MAX);
        // SAFETY: `rank` dimensions; null makes the maximum the same.
        let id = unsafe { (self.f.space_create_simple)(rank, dims.as_ptr(), std::ptr::null()) };
        self.own(id, self.f.space_close, "a dataspace")
    }

    pub(crate) fn scalar_space(&'static self) -> Result<Handle> {
        // SAFETY: no pointers.
        let id = unsafe { (self.f.space_create)(crate::symbols::SPACE_SCALAR) };
        self.own(id, self.f.space_close, "a dataspace")
    }

    pub(crate) fn dataset_space(&'static self, dataset: Hid) -> Result<Handle> {
        // SAFETY: any identifier may be asked.
        self.own(unsafe { (self.f.dataset_space)(dataset) }, self.f.space_close, "its dataspace")
    }

    pub(crate) fn dataset_type(&'static self, dataset: Hid) -> Result<Handle> {
        // SAFETY: any identifier may be asked.
        self.own(unsafe { (self.f.dataset_type)(dataset) }, self.f.type_close, "its datatype")
    }

    pub(crate) fn wrap_type(&'static self, id: Hid, what: &str) -> Result<Handle> {
        self.own(id, self.f.type_close, what)
    }

    pub(crate) fn wrap_attribute(&'static self, id: Hid, what: &str) -> Result<Handle> {
        self.own(id, self.f.attr_close, what)
    }

    pub(crate) fn wrap_space(&'static self, id: Hid, what: &str) -> Result<Handle> {
        self.own(id, self.f.space_close, what)
    }

    pub(crate) fn wrap_object(&'static self, id: Hid, what: &str) -> Result<Handle> {
        self.own(id, self.f.object_close, what)
    }

    /// Returns the shape of a dataspace.
    pub(crate) fn dims(&self, space: Hid) -> Result<Vec<u64>> {
        Ok(self.extent(space)?.0)
    }

    /// Returns the dimensions and the maximum dimensions.
    pub(crate) fn extent(&self, space: Hid) -> Result<(Vec<u64>, Vec<u64>)> {
        let (mut dims, mut largest) = ([0; MAX_RANK], [0; MAX_RANK]);
        // SAFETY: any identifier may be asked.
        if unsafe { (self.f.space_class)(space) } == SPACE_NULL {
            fail!(Unsupported, "it has no elements (null dataspace)")
        }
        // SAFETY: any identifier may be asked.
        let rank = unsafe { (self.f.space_rank)(space) };
        let parts =
            usize::try_from(rank).ok().and_then(|r| Some((dims.get_mut(..r)?, largest.get_mut(..r)?)));
        let Some((dims, largest)) = parts else { fail!(Unsupported, "its dataspace is not simple") };
        // SAFETY: room for `rank` dimensions, and HDF5 allows no more than 32.
        if unsafe { (self.f.space_dims)(space, dims.as_mut_ptr(), largest.as_mut_ptr()) } != rank {
            return Err(failure(self, "its shape"));
        }
        Ok((dims.to_vec(), largest.to_vec()))
    }

    /// Returns the path of an object or of a file, as the library reports it, cut off after 4,095 bytes.
    pub(crate) fn object_name(
        &self,
        id: Hid,
        call: unsafe extern "C" fn(Hid, *mut c_char, usize) -> isize,
    ) -> String {
        let mut buffer = vec![0u8; 4096];
        // SAFETY: the buffer has that many bytes; HDF5 terminates the text.
        let n = unsafe { call(id, buffer.as_mut_ptr().cast(), buffer.len()) };
        let end = usize::try_from(n).unwrap_or(0).min(buffer.len() - 1);
        String::from_utf8_lossy(buffer.get(..end).unwrap_or_default()).into_owned()
    }

    /// Returns the client data of our filter in a creation list; `None` if our filter is not the only one.
    pub(crate) fn live_filter(&self, plist: Hid) -> Option<Vec<u32>> {
        // SAFETY: any identifier may be asked.
        if unsafe { (self.f.plist_filters)(plist) } != 1 {
            return None;
        }
        self.live_filter_of_copy(plist).map(|(_, words)| words)
    }

    /// Returns the flags and the client data of our filter in a creation list, even if it has other filters.
    pub(crate) fn live_filter_of_copy(&self, plist: Hid) -> Option<(u32, Vec<u32>)> {
        // SAFETY: any identifier may be asked.
        let filters = unsafe { (self.f.plist_filters)(plist) };
        (0..u32::try_from(filters).unwrap_or(0)).find_map(|number| {
            let (mut flags, mut config, mut n) = (0, 0, 8usize);
            let mut words = [0u32; 8];
            let mut name: [c_char; 1] = [0];
            // SAFETY: all buffers are live and of the sizes that are passed.
            let id = unsafe {
                (self.f.plist_filter)(
                    plist,
                    number,
                    &raw mut flags,
                    &raw mut n,
                    words.as_mut_ptr(),
                    name.len(),
                    name.as_mut_ptr(),
                    &raw mut config,
                )
            };
            let ours = id == hyperchunk_udf::record::FILTER_ID;
            ours.then(|| (flags, words.get(..n.min(8)).unwrap_or_default().to_vec()))
        })
    }

    /// Returns the chunk shape of a creation list.
    pub(crate) fn chunk_shape(&self, plist: Hid) -> Option<Vec<u64>> {
        // SAFETY: any identifier may be asked.
        if unsafe { (self.f.plist_layout)(plist) } != crate::symbols::LAYOUT_CHUNKED {
            return None;
        }
        let mut dims = [0; MAX_RANK];
        // SAFETY: room for 32 dimensions, HDF5's maximum.
        let rank = unsafe { (self.f.plist_get_chunk)(plist, 32, dims.as_mut_ptr()) };
        usize::try_from(rank).ok().and_then(|r| dims.get(..r)).map(<[u64]>::to_vec)
    }

    /// Returns HDF5's serial number of an open file: equal for all identifiers of the file, never reused,
    /// independent of the driver.
    pub(crate) fn instance(&self, file: &Handle) -> Result<u64> {
        type FileNumber = unsafe extern "C" fn(Hid, *mut c_ulong) -> i32;
        type ObjectInfo = unsafe extern "C" fn(Hid, *mut [c_ulong; 64]) -> i32;
        let mut symbol = self.fileno.load(Ordering::Relaxed);
        if symbol == 0 {
            symbol = (self.optional(c"H5Fget_fileno") as usize).max(1);
            self.fileno.store(symbol, Ordering::Relaxed);
        }
        let mut number = 0;
        if symbol != 1 {
            // SAFETY: H5Fget_fileno has had this signature since it appeared in 1.12.
            let rc = unsafe {
                std::mem::transmute::<*mut c_void, FileNumber>(symbol as *mut c_void)(
                    file.id,
                    &raw mut number,
                )
            };
            if rc >= 0 {
                return Ok(number);
            }
        }
        let old = self.optional(c"H5Oget_info");
        if !old.is_null() {
            let mut info: [c_ulong; 64] = [0; 64];
            // SAFETY: HDF5 1.10's H5O_info_t begins with the number and is far shorter than the buffer.
            if unsafe { std::mem::transmute::<*mut c_void, ObjectInfo>(old)(file.id, &raw mut info) } >= 0 {
                let [number, ..] = info;
                return Ok(number);
            }
        }
        // A static program with neither function: each call returns a new number, so that no two files are
        // taken for the same one.
        static NEXT: AtomicU64 = AtomicU64::new(1 << 63);
        Ok(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
