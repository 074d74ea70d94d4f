/* The operators for C and for foreign function interfaces: one boxed call, DLPack tensors, error text. */
#ifndef MUSAIC_C_API_H
#define MUSAIC_C_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MUSAIC_TENSOR = 0, MUSAIC_INT = 1, MUSAIC_FLOAT = 2, MUSAIC_BOOL = 3 };

typedef struct MusaicValue {
  int32_t kind; /* one of the four above */
  union {
    const void* tensor; /* a DLTensor; null: no tensor */
    int64_t integer;    /* MUSAIC_INT, MUSAIC_BOOL */
    double number;      /* MUSAIC_FLOAT */
  } as;
} MusaicValue;

const char* musaic_version(void);
int32_t musaic_num_operators(void);
/* Null outside [0, musaic_num_operators()). */
const char* musaic_operator_name(int32_t index);
const char* musaic_operator_schema(int32_t index);

/* Calls an operator by name with the arguments of its schema, in order. Returns 0, or 1 after writing the
   error's text, cut to fit and ended by a zero, into error (which may be null). */
int32_t musaic_call(const char* name, const MusaicValue* args, int32_t num_args, void* stream,
                    void* workspace, int64_t workspace_bytes, char* error, size_t error_bytes);

/* Waits for the stream and reports what only the device could see (see musaic::check); as musaic_call. */
int32_t musaic_check(int32_t device_type, int32_t device_index, void* stream, char* error,
                     size_t error_bytes);

#ifdef __cplusplus
}
#endif

#endif
