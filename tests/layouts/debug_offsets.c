/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the _Py_DebugOffsets that the headers of a 3.14 or later CPython would compile in, for builds
 * that no interpreter is at hand of: print_offsets HEADERS --debug-offsets -DPy_GIL_DISABLED=1.
 */
#include <patchlevel.h>
#if PY_MINOR_VERSION >= 15 && !defined(Py_GIL_DISABLED)
#define _Py_TIER2 1 /* how Debian builds it; only the size of the interpreter state depends on it */
#endif
#include <Python.h>
#include <stdio.h>

#include "internal/pycore_runtime.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_tstate.h"
#include "internal/pycore_interpframe_structs.h"
#include "internal/pycore_gc.h"
#include "internal/pycore_debug_offsets.h"

int main(void) {
    static const _Py_DebugOffsets offsets = _Py_DebugOffsets_INIT(_Py_Debug_Cookie);
    return fwrite(&offsets, sizeof offsets, 1, stdout) == 1 ? 0 : 1;
}
