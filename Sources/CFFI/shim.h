/* libffi, which calls functions that a description names. */
#ifndef PERDURE_FFI_SHIM_H
#define PERDURE_FFI_SHIM_H

#include <ffi.h>
#include <stddef.h>

/* The type of a kind ('i', 'u', 'f', 'p', 'v') and a size; null if there is none. Swift takes the
 * variables of libffi for ones that anybody may change. */
static inline ffi_type *perdure_ffi_type(char kind, int bytes) {
  switch (kind) {
    case 'i':
      return bytes == 1   ? &ffi_type_sint8
             : bytes == 2 ? &ffi_type_sint16
             : bytes == 4 ? &ffi_type_sint32
                          : &ffi_type_sint64;
    case 'u':
      return bytes == 1   ? &ffi_type_uint8
             : bytes == 2 ? &ffi_type_uint16
             : bytes == 4 ? &ffi_type_uint32
                          : &ffi_type_uint64;
    case 'f': return bytes == 4 ? &ffi_type_float : &ffi_type_double;
    case 'p': return &ffi_type_pointer;
    case 'v': return &ffi_type_void;
    default: return NULL;
  }
}

/* Makes a struct of these members, which a null ends; both must live as long as the type. */
static inline void perdure_ffi_structure(ffi_type *type, ffi_type **members) {
  type->size = 0;
  type->alignment = 0;
  type->type = FFI_TYPE_STRUCT;
  type->elements = members;
}

/* Where the members of a struct are; 0 if that is known. */
static inline int perdure_ffi_offsets(ffi_type *type, size_t *offsets) {
  return ffi_get_struct_offsets(FFI_DEFAULT_ABI, type, offsets) == FFI_OK ? 0 : -1;
}

/* Prepares calls of a signature; 0 if there can be such. */
static inline int perdure_ffi_prepare(ffi_cif *call, unsigned count, ffi_type *result,
                                      ffi_type **parameters) {
  return ffi_prep_cif(call, FFI_DEFAULT_ABI, count, result, parameters) == FFI_OK ? 0 : -1;
}

static inline void perdure_ffi_call(ffi_cif *call, void *function, void *result, void **values) {
  ffi_call(call, FFI_FN(function), result, values);
}

#endif
