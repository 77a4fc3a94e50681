# Objects are lists with a handle of the C library, a path and, for datasets, extent and type. Extents are reversed: R stores
# the first dimension contiguously and HDF5 the last, so no element moves (as in rhdf5 and hdf5r).

# Classes of elements (H5T_class_t), from 0.
classes <- c(
  "integer", "float", "time", "string", "bitfield", "opaque", "compound", "reference", "enum", "variable-length sequence",
  "array", "complex"
)
string_class <- 3L
# Forms of 64-bit integers; the numbers are those of the C code.
forms <- c(double = 0L, integer64 = 1L, raw = 2L)

hc_open <- function(file) {
  if (!grepl("^[A-Za-z][A-Za-z0-9+.-]*://", file)) file <- path.expand(file)
  group(.Call(r_open, enc2utf8(file)), file, "/")
}

hc_close <- function(x) {
  .Call(r_close, unclass(x)$handle)
  invisible(NULL)
}

group <- function(handle, file, path) structure(list(handle = handle, file = file, path = path), class = "hc_group")

dataset <- function(handle, file, path) {
  dims <- .Call(r_dims, handle, NULL)
  type <- .Call(r_type, handle, NULL)
  count <- .Call(r_count, handle, NULL)
  made <- list(handle = handle, file = file, path = path, dims = dims, type = type, count = count)
  structure(made, class = "hc_dataset")
}

child_path <- function(parent, name) {
  if (startsWith(name, "/")) name else paste0(sub("/$", "", parent), "/", name)
}

object_at <- function(parent, name) {
  parent <- unclass(parent)
  found <- .Call(r_object, parent$handle, enc2utf8(name))
  path <- child_path(parent$path, name)
  if (is.null(found)) {
    stop("cannot open ", path, ": expected a group or dataset in ", parent$file, "; hc_ls() lists them", call. = FALSE)
  }
  make <- if (found[[2]] == 1L) group else dataset
  make(found[[1]], parent$file, path)
}

`[[.hc_group` <- function(x, i, ...) {
  if (is.numeric(i)) i <- names(x)[[i]]
  object_at(x, i)
}

`$.hc_group` <- function(x, name) {
  if (.Call(r_kind, unclass(x)$handle, enc2utf8(name)) == 0L) NULL else object_at(x, name)
}

names.hc_group <- function(x) .Call(r_members, unclass(x)$handle)
length.hc_group <- function(x) length(names(x))

# Extents as R has them: integers where they fit.
as_extent <- function(dims) {
  dims <- rev(dims)
  if (all(dims <= .Machine$integer.max)) as.integer(dims) else dims
}

dim.hc_dataset <- function(x) {
  dims <- unclass(x)$dims
  if (length(dims) == 0) NULL else as_extent(dims)
}

length.hc_dataset <- function(x) unclass(x)$count

shown_extent <- function(x) {
  if (length(x$dims) == 0) return(if (x$count == 0) "empty" else "scalar")
  paste(format(as_extent(x$dims), trim = TRUE, scientific = FALSE), collapse = " x ")
}

describe <- function(type) {
  numbers <- c("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
  if (type[[2]] > 0) numbers[[type[[2]]]] else classes[[type[[1]] + 1L]]
}

print.hc_dataset <- function(x, ...) {
  x <- unclass(x)
  cat("<dataset ", x$path, ": ", shown_extent(x), ", ", describe(x$type), " (", x$file, ")>\n", sep = "")
  invisible(x)
}

print.hc_group <- function(x, ...) {
  members <- names(x)
  y <- unclass(x)
  cat("<group ", y$path, " (", y$file, "), ", length(members), " members>\n", sep = "")
  for (name in utils::head(members, 20)) cat("  ", name, "\n", sep = "")
  if (length(members) > 20) cat("  ...\n")
  invisible(x)
}

hc_ls <- function(x, recursive = TRUE) {
  rows <- list()
  visit <- function(here, above) {
    for (name in names(here)) {
      kind <- .Call(r_kind, unclass(here)$handle, enc2utf8(name))
      path <- paste0(above, name)
      row <- list(path = path, kind = c("missing", "group", "dataset", "datatype")[[kind + 1L]], dim = "", type = "")
      if (kind == 2L) {
        found <- unclass(object_at(here, name))
        row$dim <- shown_extent(found)
        row$type <- describe(found$type)
      }
      rows[[length(rows) + 1L]] <<- row
      # Links may form cycles, so the depth is limited.
      if (kind == 1L && recursive && nchar(gsub("[^/]", "", path)) < 64L) visit(object_at(here, name), paste0(path, "/"))
    }
  }
  visit(x, "")
  if (length(rows) == 0) return(data.frame(path = character(), kind = character(), dim = character(), type = character()))
  do.call(rbind, lapply(rows, as.data.frame))
}

# Selection of a dimension with n elements: start from 0, count, stride, and the positions of the requested
# elements among those that are read (NULL for all, in order).
choose <- function(index, n) {
  if (is.null(index)) return(list(0, n, 1, NULL))
  if (is.character(index)) stop("cannot select by name: HDF5 datasets have no dimnames", call. = FALSE)
  if (is.logical(index) && length(index) > n) stop("subscript out of bounds", call. = FALSE)
  chosen <- if (is.logical(index) || any(index < 0, na.rm = TRUE)) seq_len(n)[index] else trunc(index[index != 0])
  if (anyNA(chosen)) stop("cannot select by NA", call. = FALSE)
  if (length(chosen) == 0) return(list(0, 0, 1, NULL))
  if (any(chosen > n)) stop("subscript out of bounds", call. = FALSE)
  first <- min(chosen)
  if (length(chosen) == 1) return(list(first - 1, 1, 1, NULL))
  steps <- diff(chosen)
  step <- steps[[1]]
  if (step > 0 && all(steps == step)) return(list(first - 1, length(chosen), step, NULL))
  list(first - 1, max(chosen) - first + 1, 1, chosen - first + 1)
}

form_of <- function(as, type, what) {
  form <- forms[[match.arg(as, names(forms))]]
  if (form != forms[["raw"]] && type[[2]] == 0L && type[[1]] != string_class) {
    stop(
      "cannot read ", what, ": expected numbers or strings, got elements of class ", classes[[type[[1]] + 1L]],
      "; as = \"raw\" gives their bytes", call. = FALSE
    )
  }
  form
}

# Sets the extent of elements to `count` (in R's order), and then selects the requested positions.
shaped <- function(values, count, places, drop, size = NULL) {
  kept <- attr(values, "class")
  dim(values) <- c(size, count)
  if (!all(vapply(places, is.null, NA))) {
    index <- lapply(places, function(place) if (is.null(place)) TRUE else place)
    if (!is.null(size)) index <- c(list(TRUE), index)
    values <- do.call(`[`, c(list(unclass(values)), index, list(drop = FALSE)))
  }
  if (drop) values <- drop(values)
  if (length(dim(values)) == 1L) dim(values) <- NULL
  if (!is.null(kept)) class(values) <- kept
  values
}

read_chosen <- function(x, chosen, as, drop) {
  y <- unclass(x)
  what <- paste0(y$path, " of ", y$file)
  form <- form_of(as, y$type, what)
  # A null dataspace.
  if (length(y$dims) == 0 && y$count == 0) return(NULL)
  part <- function(number) rev(vapply(chosen, function(one) as.double(one[[number]]), 0))
  start <- part(1)
  count <- part(2)
  stride <- part(3)
  if (y$type[[1]] == string_class && form != forms[["raw"]]) {
    values <- .Call(r_read_strings, y$handle, start, count, stride)
  } else {
    values <- .Call(r_read_many, list(list(y$handle, start, count, stride, y$type)), form)[[1]]
  }
  size <- if (form == forms[["raw"]]) y$type[[3]] else NULL
  if (length(count) == 0) return(values)
  shaped(values, rev(count), lapply(chosen, `[[`, 4), drop, size)
}

`[.hc_dataset` <- function(x, ..., drop = TRUE, as = "double") {
  dims <- as_extent(unclass(x)$dims)
  asked <- as.list(substitute(list(...)))[-1]
  left_out <- vapply(asked, function(one) identical(one, quote(expr = )), NA)
  if (length(asked) == 1L && left_out) asked <- list()
  if (length(asked) != 0 && length(asked) != length(dims)) {
    stop("expected ", length(dims), " subscripts for ", unclass(x)$path, ", got ", length(asked), call. = FALSE)
  }
  caller <- parent.frame()
  chosen <- lapply(seq_along(dims), function(axis) {
    choose(if (length(asked) == 0 || left_out[[axis]]) NULL else eval(asked[[axis]], caller), dims[[axis]])
  })
  read_chosen(x, chosen, as, drop)
}

as.array.hc_dataset <- function(x, ...) hc_read(x, drop = FALSE)

hc_read <- function(x, index = NULL, as = c("double", "integer64", "raw"), drop = TRUE) {
  dims <- as_extent(unclass(x)$dims)
  if (is.null(index)) index <- vector("list", length(dims))
  if (length(index) != length(dims)) {
    stop("expected ", length(dims), " subscripts for ", unclass(x)$path, ", got ", length(index), call. = FALSE)
  }
  read_chosen(x, Map(choose, index, dims), match.arg(as), drop)
}

hc_read_many <- function(datasets, as = c("double", "integer64", "raw"), drop = TRUE) {
  as <- match.arg(as)
  results <- vector("list", length(datasets))
  names(results) <- names(datasets)
  types <- lapply(datasets, function(one) unclass(one)$type)
  empty <- vapply(datasets, function(one) length(unclass(one)$dims) == 0 && unclass(one)$count == 0, NA)
  strings <- vapply(types, function(type) type[[1]] == string_class, NA) & as != "raw" | empty
  for (at in which(strings & !empty)) results[[at]] <- hc_read(datasets[[at]], drop = drop)
  reads <- lapply(which(!strings), function(at) {
    y <- unclass(datasets[[at]])
    form_of(as, y$type, paste0(y$path, " of ", y$file))
    list(y$handle, numeric(length(y$dims)), y$dims, rep(1, length(y$dims)), y$type)
  })
  values <- .Call(r_read_many, reads, forms[[as]])
  for (at in seq_along(reads)) {
    y <- unclass(datasets[[which(!strings)[[at]]]])
    size <- if (as == "raw") y$type[[3]] else NULL
    one <- values[[at]]
    if (length(y$dims)) one <- shaped(one, rev(y$dims), vector("list", length(y$dims)), drop, size)
    results[[which(!strings)[[at]]]] <- one
  }
  results
}

hc_attributes <- function(x, as = c("double", "integer64")) {
  as <- match.arg(as)
  y <- unclass(x)
  names <- .Call(r_attributes, y$handle)
  found <- lapply(names, function(name) {
    type <- .Call(r_type, y$handle, name)
    if (type[[2]] == 0L && type[[1]] != string_class) {
      return(structure(list(class = classes[[type[[1]] + 1L]], size = type[[3]]), class = "hc_unread"))
    }
    values <- .Call(r_attribute, y$handle, name, type, forms[[as]])
    dims <- .Call(r_dims, y$handle, name)
    if (length(dims) > 1L) dim(values) <- as_extent(dims)
    values
  })
  names(found) <- names
  found
}
