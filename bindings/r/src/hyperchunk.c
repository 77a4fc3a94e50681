/* Calls of libhyperchunk from R. Extents and selections are in HDF5's order; the R side reverses them, since R stores the
 * first dimension contiguously and HDF5 the last. */
#include <hyperchunk.h>
#include <stdlib.h>
#include <string.h>

#define R_NO_REMAP
#include <R.h>
#include <R_ext/Rdynload.h>
#include <Rinternals.h>

enum { MAX_RANK = 32 };

/* Largest integer up to which doubles hold every integer. */
static const int64_t MAX_EXACT = INT64_C(1) << 53;

/* Forms of 64-bit integers in R; the numbers are those of `forms` in R/hyperchunk.R. */
enum form { FORM_DOUBLE = 0, FORM_INTEGER64 = 1, FORM_RAW = 2 };

static void fail(void) { Rf_errorcall(R_NilValue, "%s", hc_error()); }

static void release(SEXP handle) {
    hc_id *id = R_ExternalPtrAddr(handle);
    if (id == NULL)
        return;
    R_ClearExternalPtr(handle);
    hc_close(*id);
    free(id);
}

static SEXP handle_of(hc_id id) {
    if (id < 0)
        fail();
    hc_id *kept = malloc(sizeof *kept);
    if (kept == NULL) {
        hc_close(id);
        Rf_errorcall(R_NilValue, "cannot open an object: out of memory");
    }
    *kept = id;
    SEXP handle = PROTECT(R_MakeExternalPtr(kept, R_NilValue, R_NilValue));
    R_RegisterCFinalizerEx(handle, release, TRUE);
    UNPROTECT(1);
    return handle;
}

static hc_id id_of(SEXP handle) {
    hc_id *id = TYPEOF(handle) == EXTPTRSXP ? R_ExternalPtrAddr(handle) : NULL;
    if (id == NULL)
        Rf_errorcall(R_NilValue, "cannot use the object: it is closed, or was saved by another session; open the file again");
    return *id;
}

static const char *text_of(SEXP text) {
    if (TYPEOF(text) != STRSXP || XLENGTH(text) != 1 || STRING_ELT(text, 0) == NA_STRING)
        Rf_errorcall(R_NilValue, "expected one string");
    return Rf_translateCharUTF8(STRING_ELT(text, 0));
}

static const char *attribute_of(SEXP name) { return name == R_NilValue ? NULL : text_of(name); }

static SEXP r_open(SEXP name) { return handle_of(hc_open(text_of(name))); }

static SEXP r_object(SEXP parent, SEXP path) {
    hc_id id = id_of(parent);
    const char *name = text_of(path);
    int kind = hc_kind(id, name);
    if (kind < 0)
        fail();
    if (kind != HC_GROUP && kind != HC_DATASET)
        return R_NilValue;
    SEXP found = PROTECT(Rf_allocVector(VECSXP, 2));
    SET_VECTOR_ELT(found, 0, handle_of(kind == HC_GROUP ? hc_open_group(id, name) : hc_open_dataset(id, name)));
    SET_VECTOR_ELT(found, 1, Rf_ScalarInteger(kind));
    UNPROTECT(1);
    return found;
}

static SEXP r_kind(SEXP parent, SEXP path) {
    int kind = hc_kind(id_of(parent), text_of(path));
    if (kind < 0)
        fail();
    return Rf_ScalarInteger(kind);
}

static SEXP r_close(SEXP handle) {
    release(handle);
    return R_NilValue;
}

typedef int64_t names_function(hc_id, int64_t, char *, size_t);

static SEXP names(hc_id id, int64_t count, names_function *name) {
    if (count < 0)
        fail();
    SEXP all = PROTECT(Rf_allocVector(STRSXP, (R_xlen_t)count));
    for (int64_t number = 0; number < count; number++) {
        int64_t length = name(id, number, NULL, 0);
        if (length < 0)
            fail();
        char *buffer = R_alloc((size_t)length + 1, 1);
        if (name(id, number, buffer, (size_t)length + 1) < 0)
            fail();
        SET_STRING_ELT(all, (R_xlen_t)number, Rf_mkCharCE(buffer, CE_UTF8));
    }
    UNPROTECT(1);
    return all;
}

static SEXP r_members(SEXP handle) {
    hc_id id = id_of(handle);
    return names(id, hc_member_count(id), hc_member_name);
}

static SEXP r_attributes(SEXP handle) {
    hc_id id = id_of(handle);
    return names(id, hc_attr_count(id), hc_attr_name);
}

static int extent(hc_id id, const char *attribute, uint64_t *dims) {
    int rank = attribute ? hc_attr_dims(id, attribute, MAX_RANK, dims) : hc_dims(id, MAX_RANK, dims);
    if (rank < 0)
        fail();
    if (rank > MAX_RANK)
        Rf_errorcall(R_NilValue, "cannot read an extent of %d dimensions: expected at most %d", rank, MAX_RANK);
    return rank;
}

static SEXP r_dims(SEXP handle, SEXP attribute) {
    uint64_t dims[MAX_RANK];
    int rank = extent(id_of(handle), attribute_of(attribute), dims);
    SEXP found = PROTECT(Rf_allocVector(REALSXP, rank));
    for (int axis = 0; axis < rank; axis++)
        REAL(found)[axis] = (double)dims[axis];
    UNPROTECT(1);
    return found;
}

/* Number of elements; 0 for a null dataspace. */
static SEXP r_count(SEXP handle, SEXP attribute) {
    int64_t count = hc_element_count(id_of(handle), attribute_of(attribute));
    if (count < 0)
        fail();
    return Rf_ScalarReal((double)count);
}

/* Class, hc_type and size of the elements. */
static SEXP r_type(SEXP handle, SEXP attribute) {
    hc_id id = id_of(handle);
    const char *name = attribute_of(attribute);
    int class = hc_class_of(id, name);
    if (class < 0)
        fail();
    SEXP found = PROTECT(Rf_allocVector(INTSXP, 3));
    INTEGER(found)[0] = class;
    int type = hc_type_of(id, name);
    INTEGER(found)[1] = type < 0 ? 0 : type;
    int64_t size = hc_element_size(id, name);
    if (size > INT_MAX)
        Rf_errorcall(R_NilValue, "cannot read elements of %lld bytes: expected at most 2^31", (long long)size);
    INTEGER(found)[2] = size < 0 ? 0 : (int)size;
    UNPROTECT(1);
    return found;
}

/* A selection; the arrays are R's memory until the call returns. */
struct selection {
    uint64_t *start, *count, *stride;
    uint64_t elements;
};

static uint64_t *extents_of(SEXP numbers) {
    R_xlen_t rank = XLENGTH(numbers);
    uint64_t *found = (uint64_t *)R_alloc((size_t)rank + 1, sizeof *found);
    for (R_xlen_t axis = 0; axis < rank; axis++)
        found[axis] = (uint64_t)REAL(numbers)[axis];
    return found;
}

static struct selection selection_of(SEXP start, SEXP count, SEXP stride) {
    struct selection made = {extents_of(start), extents_of(count), extents_of(stride), 1};
    for (R_xlen_t axis = 0; axis < XLENGTH(count); axis++) {
        uint64_t here = made.count[axis];
        if (here != 0 && made.elements > (uint64_t)R_XLEN_T_MAX / here)
            Rf_errorcall(R_NilValue, "cannot read the selection at once: R's vectors have at most 2^52 elements; read a part");
        made.elements *= here;
    }
    return made;
}

/* Memory for the elements, and the type that they are read as. */
static SEXP buffer_for(int type, int size, enum form form, uint64_t elements, hc_type *as, void **memory) {
    SEXP values;
    if (form == FORM_RAW) {
        if (size > 0 && elements > (uint64_t)R_XLEN_T_MAX / (uint64_t)size)
            Rf_errorcall(R_NilValue, "cannot read the selection at once: R's vectors have at most 2^52 bytes; read a part");
        *as = HC_STORED;
        values = Rf_allocVector(RAWSXP, (R_xlen_t)(elements * (uint64_t)size));
        *memory = RAW(values);
        return values;
    }
    switch (type) {
    case HC_INT8: case HC_INT16: case HC_INT32: case HC_UINT8: case HC_UINT16:
        *as = HC_INT32;
        values = Rf_allocVector(INTSXP, (R_xlen_t)elements);
        *memory = INTEGER(values);
        return values;
    case HC_INT64: case HC_UINT64:
        *as = (hc_type)type;
        break;
    default:
        *as = HC_FLOAT64;
    }
    values = Rf_allocVector(REALSXP, (R_xlen_t)elements);
    *memory = REAL(values);
    return values;
}

/* Converts elements as they were read to R's values; `values` is protected. */
static SEXP finished(SEXP values, int type, enum form form) {
    R_xlen_t count = XLENGTH(values);
    if (form == FORM_RAW)
        return values;
    if (type == HC_INT32) {
        const int *numbers = INTEGER(values);
        R_xlen_t at = 0;
        while (at < count && numbers[at] != NA_INTEGER)
            at++;
        if (at == count)
            return values;
        /* R's integers have no -2^31: it is their NA. */
        SEXP doubles = Rf_allocVector(REALSXP, count);
        for (at = 0; at < count; at++)
            REAL(doubles)[at] = numbers[at];
        return doubles;
    }
    if (type != HC_INT64 && type != HC_UINT64)
        return values;
    char *bytes = (char *)REAL(values);
    for (R_xlen_t at = 0; at < count; at++) {
        int64_t number;
        memcpy(&number, bytes + 8 * at, 8);
        if (form == FORM_INTEGER64) {
            /* A missing value of integer64 is -2^63. */
            if (type == HC_UINT64 ? number < 0 : number == INT64_MIN)
                Rf_errorcall(R_NilValue, "cannot read the integers as integer64: element %lld is beyond its range; use as = \"raw\"",
                         (long long)at + 1);
            continue;
        }
        if ((type == HC_UINT64 && number < 0) || number > MAX_EXACT || number < -MAX_EXACT)
            Rf_errorcall(R_NilValue, "cannot read the integers as double: element %lld is beyond 2^53; use as = \"integer64\"",
                     (long long)at + 1);
        double as_double = (double)number;
        memcpy(bytes + 8 * at, &as_double, 8);
    }
    if (form == FORM_INTEGER64)
        Rf_setAttrib(values, R_ClassSymbol, Rf_mkString("integer64"));
    return values;
}

static SEXP strings(char **found, size_t count) {
    if (found == NULL)
        fail();
    SEXP values = PROTECT(Rf_allocVector(STRSXP, (R_xlen_t)count));
    for (size_t at = 0; at < count; at++)
        SET_STRING_ELT(values, (R_xlen_t)at, Rf_mkCharCE(found[at], CE_UTF8));
    hc_free(found);
    UNPROTECT(1);
    return values;
}

static SEXP r_read_strings(SEXP handle, SEXP start, SEXP count, SEXP stride) {
    struct selection chosen = selection_of(start, count, stride);
    size_t number = 0;
    char **found = hc_read_strings(id_of(handle), chosen.start, chosen.count, chosen.stride, &number);
    return strings(found, number);
}

/* Reads numbers, or bytes, of several datasets: `reads` has for each handle, start, count, stride and its r_type. */
static SEXP r_read_many(SEXP reads, SEXP form) {
    R_xlen_t number = XLENGTH(reads);
    enum form as = (enum form)Rf_asInteger(form);
    SEXP all = PROTECT(Rf_allocVector(VECSXP, number));
    hc_read_request *requests = (hc_read_request *)R_alloc((size_t)number + 1, sizeof *requests);
    for (R_xlen_t at = 0; at < number; at++) {
        SEXP one = VECTOR_ELT(reads, at);
        struct selection chosen = selection_of(VECTOR_ELT(one, 1), VECTOR_ELT(one, 2), VECTOR_ELT(one, 3));
        const int *type = INTEGER(VECTOR_ELT(one, 4));
        hc_read_request *request = &requests[at];
        request->dset = id_of(VECTOR_ELT(one, 0));
        request->start = chosen.start;
        request->count = chosen.count;
        request->stride = chosen.stride;
        SET_VECTOR_ELT(all, at, buffer_for(type[1], type[2], as, chosen.elements, &request->type, &request->buf));
    }
    if (hc_read_many((size_t)number, requests) < 0)
        fail();
    for (R_xlen_t at = 0; at < number; at++) {
        const int *type = INTEGER(VECTOR_ELT(VECTOR_ELT(reads, at), 4));
        SET_VECTOR_ELT(all, at, finished(VECTOR_ELT(all, at), type[1], as));
    }
    UNPROTECT(1);
    return all;
}

/* Values of an attribute of the r_type `type`, without its extent. */
static SEXP r_attribute(SEXP handle, SEXP name, SEXP type, SEXP form) {
    hc_id id = id_of(handle);
    const char *attribute = text_of(name);
    const int *known = INTEGER(type);
    if (known[0] == HC_CLASS_STRING) {
        size_t number = 0;
        char **found = hc_get_strings(id, attribute, &number);
        return strings(found, number);
    }
    int64_t count = hc_get_numbers(id, attribute, HC_FLOAT64, 0, NULL);
    if (count < 0)
        fail();
    hc_type as;
    void *memory;
    enum form wanted = (enum form)Rf_asInteger(form);
    SEXP values = PROTECT(buffer_for(known[1], known[2], wanted, (uint64_t)count, &as, &memory));
    if (count > 0 && hc_get_numbers(id, attribute, as, (size_t)count, memory) < 0)
        fail();
    values = PROTECT(finished(values, known[1], wanted));
    UNPROTECT(2);
    return values;
}

static const R_CallMethodDef METHODS[] = {
    {"r_attribute", (DL_FUNC)&r_attribute, 4},   {"r_attributes", (DL_FUNC)&r_attributes, 1},
    {"r_close", (DL_FUNC)&r_close, 1},           {"r_dims", (DL_FUNC)&r_dims, 2},             {"r_count", (DL_FUNC)&r_count, 2},
    {"r_kind", (DL_FUNC)&r_kind, 2},             {"r_members", (DL_FUNC)&r_members, 1},
    {"r_object", (DL_FUNC)&r_object, 2},         {"r_open", (DL_FUNC)&r_open, 1},
    {"r_read_many", (DL_FUNC)&r_read_many, 2},   {"r_read_strings", (DL_FUNC)&r_read_strings, 4},
    {"r_type", (DL_FUNC)&r_type, 2},             {NULL, NULL, 0},
};

void R_init_hyperchunk(DllInfo *info) {
    R_registerRoutines(info, NULL, METHODS, NULL, NULL);
    R_useDynamicSymbols(info, FALSE);
    R_forceSymbols(info, TRUE);
}
