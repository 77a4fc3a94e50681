//! Extension module `hyperchunk._core`: one file per class, no logic.

mod analysis;
mod capsules;
mod collection;
#[cfg(target_os = "linux")]
mod cuda;
mod dataset;
mod dataset_writer;
mod datatype;
mod dual;
mod edit;
mod errors;
mod file;
mod filters;
#[cfg(target_os = "linux")]
mod flat_buffer;
#[cfg(target_os = "linux")]
mod flat_slots;
mod flight;
mod follow;
mod joined_batches;
mod memory;
mod names;
mod network;
mod node;
mod object;
mod output;
mod paths;
#[cfg(target_os = "linux")]
mod pool;
mod query;
mod read_budget;
mod restructure;
mod salvage;
mod selection;
mod store;
mod table;
mod trust;
mod warnings;
#[cfg(target_os = "linux")]
mod worker;
mod writer;

use pyo3::prelude::*;
#[cfg(target_os = "linux")]
use std::ffi::CString;
use std::ffi::OsString;
use std::path::PathBuf;

/// Runs the `hyperchunk` command; returns its exit status.
#[pyfunction]
fn run_command(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<i32> {
    errors::command(py, || py.detach(|| hyperchunk_cli::run(arguments)))
}

/// Puts `folder` first in the plugin search path of each libhdf5 of this process; returns the
/// number of these libraries.
#[cfg(target_os = "linux")]
#[pyfunction]
fn prepend_plugin_folder(folder: CString) -> usize {
    hyperchunk_h5abi::library::prepend_plugin_folder(&folder)
}

/// Sets the folder of the package.
#[pyfunction]
fn set_package_dir(#[pyo3(from_py_with = paths::path)] folder: PathBuf) {
    hyperchunk_udf::host::set_package_dir(folder);
}

/// Returns a text of a file for display on a terminal: control characters and invisible characters are
/// escaped.
#[pyfunction]
fn printable(text: &str) -> String {
    hyperchunk_udf::escape::escape(text, usize::MAX)
}

/// Process ids of idle workers, kept for the next read.
#[pyfunction]
fn idle_workers() -> Vec<i32> {
    hyperchunk_udf::host::Pool::global().pids()
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    hyperchunk::io::set_interrupt(errors::interrupted);
    hyperchunk::companion::set_warning(warnings::later);
    hyperchunk_store::register();
    hyperchunk_arrow::flight::enable();
    hyperchunk_live::enable();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<file::File>()?;
    module.add_class::<flight::RemoteTable>()?;
    module.add_class::<object::Object>()?;
    module.add_class::<collection::Collection>()?;
    module.add_function(wrap_pyfunction!(collection::list_objects, module)?)?;
    module.add_class::<dataset::Dataset>()?;
    module.add_class::<datatype::Datatype>()?;
    module.add_class::<datatype::Conversion>()?;
    module.add_class::<selection::Selection>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<table::RowBatches>()?;
    module.add_class::<table::Batch>()?;
    module.add_class::<table::Scan>()?;
    module.add_class::<table::ScanPart>()?;
    module.add_class::<table::FilteredRows>()?;
    module.add_class::<joined_batches::JoinedBatches>()?;
    module.add_class::<read_budget::ReadBudget>()?;
    module.add_class::<table::MappedDataset>()?;
    module.add_function(wrap_pyfunction!(knows_filter, module)?)?;
    module.add_function(wrap_pyfunction!(capsules::take_stream_error, module)?)?;
    module.add_function(wrap_pyfunction!(table::before_fork, module)?)?;
    module.add_function(wrap_pyfunction!(table::after_fork, module)?)?;
    module.add_class::<writer::Writer>()?;
    module.add_class::<node::Node>()?;
    module.add_class::<dataset_writer::DatasetWriter>()?;
    module.add_class::<dual::DualWriter>()?;
    module.add_class::<dual::ArrowStream>()?;
    module.add_class::<store::StoreDefinition>()?;
    module.add_class::<store::StoreWriter>()?;
    module.add_class::<store::FreshStore>()?;
    module.add_class::<store::StoreBegun>()?;
    module.add_function(wrap_pyfunction!(store::store_create, module)?)?;
    module.add_function(wrap_pyfunction!(store::store_commit, module)?)?;
    module.add_function(wrap_pyfunction!(store::store_look_up, module)?)?;
    module.add_function(wrap_pyfunction!(store::store_fragments, module)?)?;
    module.add_function(wrap_pyfunction!(store::store_real_file, module)?)?;
    module.add_class::<follow::StoreFollow>()?;
    module.add_function(wrap_pyfunction!(follow::predicate_of_dataset, module)?)?;
    module.add_class::<query::Query>()?;
    module.add_class::<query::Matches>()?;
    module.add_function(wrap_pyfunction!(query::value_matches, module)?)?;
    module.add_function(wrap_pyfunction!(query::analyze, module)?)?;
    module.add_function(wrap_pyfunction!(query::query_top, module)?)?;
    module.add_function(wrap_pyfunction!(query::query_zones, module)?)?;
    #[cfg(target_os = "linux")]
    {
        module.add_class::<pool::Pool>()?;
        module.add_class::<pool::PoolWriter>()?;
        module.add_class::<pool::PoolObject>()?;
        module.add_class::<flat_buffer::FlatBuffer>()?;
        module.add_function(wrap_pyfunction!(worker::serve, module)?)?;
        module.add_function(wrap_pyfunction!(worker::adopt_orphans, module)?)?;
        module.add_function(wrap_pyfunction!(prepend_plugin_folder, module)?)?;
        cuda::add(module)?;
    }
    module.add_function(wrap_pyfunction!(dataset::read_many, module)?)?;
    module.add_function(wrap_pyfunction!(file::set_metadata_cache_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(filters::register_filter, module)?)?;
    module.add_function(wrap_pyfunction!(run_command, module)?)?;
    module.add_function(wrap_pyfunction!(set_package_dir, module)?)?;
    module.add_function(wrap_pyfunction!(idle_workers, module)?)?;
    module.add_function(wrap_pyfunction!(printable, module)?)?;
    module.add_function(wrap_pyfunction!(salvage::salvage, module)?)?;
    module.add_class::<output::OutputFile>()?;
    module.add_class::<output::OutputFolder>()?;
    module.add_function(wrap_pyfunction!(output::put_output, module)?)?;
    module.add_function(wrap_pyfunction!(output::check_output, module)?)?;
    module.add_function(wrap_pyfunction!(output::output_target, module)?)?;
    restructure::add(module)?;
    analysis::add(module)?;
    trust::add(module)?;
    edit::add(module)
}

/// True if a filter with this number is available.
#[pyfunction]
fn knows_filter(number: u16) -> bool {
    hyperchunk::codec::lookup(number, |codec| codec.is_some())
}
