// SPDX-License-Identifier: Apache-2.0
//
// The names are those of CPython 3.8 to 3.15 (Python/ceval.c, Objects/call.c, methodobject.c, descrobject.c,
// typeobject.c, genobject.c, Python/pythonrun.c, Modules/main.c, _threadmodule.c) and of Cython 0.29 and 3.
#include "native/machinery.h"

#include <algorithm>
#include <array>

namespace pyprof {
namespace {

struct Rule {
    std::string_view beginning;  // with a trailing '*': names that begin so; else the whole name
    NativeRole role;
};

constexpr NativeRole kEval = NativeRole::kEval;
constexpr NativeRole kCall = NativeRole::kMachinery;
constexpr NativeRole kInterior = NativeRole::kInterior;
constexpr NativeRole kStart = NativeRole::kStart;

// In whatever module. The first rule that fits counts.
constexpr std::array kEverywhere{
    Rule{"_start", kStart},
    Rule{"__libc_start_*", kStart},
    Rule{"generic_start_main", kStart},
    Rule{"start_thread", kStart},
    Rule{"clone", kStart},
    Rule{"clone3", kStart},
    Rule{"__clone", kStart},
    Rule{"__clone3", kStart},
    // A greenlet's stack begins there; whether the stack that it was begun on is still below is chance.
    Rule{"greenlet::UserGreenlet::g_initialstub", kStart},
    Rule{"greenlet::UserGreenlet::inner_bootstrap", kStart},
    Rule{"__Pyx_*", kInterior},
    Rule{"_PyEval_EvalFrameDefault", kEval},
};

constexpr std::array kInInterpreter{
    Rule{"main", kStart},
    Rule{"Py_BytesMain", kStart},
    Rule{"Py_Main", kStart},
    Rule{"Py_RunMain", kStart},
    Rule{"pymain_*", kStart},
    Rule{"thread_run", kStart},
    Rule{"t_bootstrap", kStart},
    Rule{"pythread_wrapper", kStart},
    Rule{"run_mod", kStart},
    Rule{"run_eval_code_obj", kStart},
    Rule{"pyrun_*", kStart},
    Rule{"_PyRun_*", kStart},
    Rule{"PyRun_*", kStart},
    // The interpreter's loop, and what tail calls and LTO make of it.
    Rule{"_PyEval_EvalFrame", kEval},
    Rule{"PyEval_EvalFrame", kEval},
    Rule{"PyEval_EvalFrameEx", kEval},
    Rule{"_TAIL_CALL_*", kEval},
    // Python/ceval.c, Objects/call.c
    Rule{"_PyEval_Vector", kCall},
    Rule{"_PyEval_EvalCode*", kCall},
    Rule{"PyEval_EvalCode*", kCall},
    Rule{"PyEval_Call*", kCall},
    Rule{"call_function", kCall},
    Rule{"do_call_core", kCall},
    Rule{"function_code_fastcall", kCall},
    Rule{"_PyFunction_Vectorcall", kCall},
    Rule{"_PyFunction_FastCall*", kCall},
    Rule{"PyObject_Call*", kCall},
    Rule{"_PyObject_Call*", kCall},
    Rule{"PyObject_Vectorcall*", kCall},
    Rule{"_PyObject_Vectorcall*", kCall},
    Rule{"_PyObject_MakeTpCall", kCall},
    Rule{"_PyObject_FastCall*", kCall},
    Rule{"PyVectorcall_*", kCall},
    Rule{"_PyVectorcall_*", kCall},
    Rule{"_Py_VectorCall*", kCall},
    Rule{"_Py_BuiltinCall*", kCall},
    Rule{"object_vacall", kCall},
    Rule{"callmethod*", kCall},
    Rule{"_PyObject_*CallFunction*", kCall},
    // Objects/methodobject.c, descrobject.c, classobject.c
    Rule{"cfunction_*", kCall},
    Rule{"_PyCFunction_*", kCall},
    Rule{"_PyMethodDef_*", kCall},
    Rule{"_PyMethodDescr_*", kCall},
    Rule{"method_vectorcall*", kCall},
    Rule{"method_call", kCall},
    Rule{"methoddescr_call", kCall},
    Rule{"classmethoddescr_call", kCall},
    Rule{"wrapper_call", kCall},
    Rule{"wrapperdescr_*", kCall},
    Rule{"wrap_*", kCall},
    Rule{"property_descr_*", kInterior},
    // Objects/typeobject.c
    Rule{"type_call", kCall},
    Rule{"type_vectorcall", kCall},
    Rule{"slot_*", kCall},
    Rule{"vectorcall_*", kCall},
    Rule{"call_method*", kCall},
    Rule{"call_unbound*", kCall},
    Rule{"lookup_maybe_method", kInterior},
    Rule{"subtype_dealloc", kInterior},
    Rule{"_Py_Dealloc", kInterior},
    // Objects/genobject.c, iterobject.c
    Rule{"gen_send_ex*", kInterior},
    Rule{"gen_iternext", kInterior},
    Rule{"gen_send", kInterior},
    Rule{"_PyGen_*", kInterior},
    Rule{"PyGen_*", kInterior},
    Rule{"PyIter_*", kInterior},
    Rule{"_PyIter_*", kInterior},
    Rule{"coro_wrapper_*", kInterior},
    Rule{"async_gen_*", kInterior},
    // The abstract object layer: it passes on what a type does.
    Rule{"PyObject_*", kInterior},
    Rule{"_PyObject_*", kInterior},
    Rule{"PyNumber_*", kInterior},
    Rule{"_PyNumber_*", kInterior},
    Rule{"PySequence_*", kInterior},
    Rule{"_PySequence_*", kInterior},
    Rule{"PyMapping_*", kInterior},
    Rule{"_PyMapping_*", kInterior},
    Rule{"binary_op*", kInterior},
    Rule{"binary_iop*", kInterior},
    Rule{"ternary_op*", kInterior},
    Rule{"do_richcompare", kInterior},
    Rule{"import_name", kInterior},
    Rule{"import_find_and_load", kInterior},
    Rule{"PyImport_*", kInterior},
    Rule{"_PyImport_*", kInterior},
};

bool fits(std::string_view pattern, std::string_view name) {
    if (pattern.empty() || pattern.back() != '*') return pattern == name;
    pattern.remove_suffix(1);
    return name.substr(0, pattern.size()) == pattern;
}

template <class Rules>
const Rule* find_rule(const Rules& rules, std::string_view name) {
    const auto found = std::find_if(rules.begin(), rules.end(), [&](const Rule& rule) { return fits(rule.beginning, name); });
    return found == rules.end() ? nullptr : &*found;
}

}  // namespace

NativeRole role_of_function(std::string_view function, bool in_interpreter) {
    if (const Rule* rule = find_rule(kEverywhere, function)) return rule->role;
    if (!in_interpreter) return NativeRole::kPlain;
    const Rule* rule = find_rule(kInInterpreter, function);
    return rule == nullptr ? NativeRole::kPlain : rule->role;
}

}  // namespace pyprof
