// SPDX-License-Identifier: Apache-2.0
//
// Symbols of real Cythons (0.29.37, 3.0.11, 3.3.1).
#include "native/cython_names.h"

#include "built.h"

using namespace pyprof;
using namespace pyprof::test;

TEST_CASE("cython: names of functions, methods, nested ones, lambdas and variants of fused ones") {
    CHECK(cython_name("__pyx_pw_5hello_1run") == "run");
    CHECK(cython_name("__pyx_f_5hello_inner") == "inner");
    CHECK(cython_name("__pyx_pf_5hello_3Foo_2bar") == "Foo.bar");
    CHECK(cython_name("__pyx_fuse_0__pyx_f_5hello_add") == "add");
    CHECK(cython_name("__pyx_pf_3mod_5Plain_method") == "Plain.method");
    CHECK(cython_name("__pyx_pw_3mod_3Box_4area_1__get__") == "Box.area.__get__");
    CHECK(cython_name("__pyx_pw_3mod_3Box_1__init__") == "Box.__init__");
    CHECK(cython_name("__pyx_pw_3lam_7gen_one_5Local_1steps") == "gen_one.Local.steps");
    CHECK(cython_name("__pyx_pw_3mod_19from_0_to_1") == "from_0_to_1");
    CHECK(cython_name("__pyx_pw_3mod_5outer_2__pyx_lambda_funcdef_lambda") == "outer.lambda");
    CHECK(cython_name("__pyx_pw_3lam_5outer___pyx_lambda_funcdef_lambda") == "outer.lambda");
    CHECK(cython_name("__pyx_pw_3mod_5outer_2lambda") == "outer.lambda");
    CHECK(cython_name("__pyx_lambda_funcdef_lambda") == "lambda");
    CHECK(cython_name("__pyx_pw_3mod_24__pyx_fuse_0twice") == "twice");
    CHECK(cython_name("__pyx_pw_3mod_24__pyx_fuse_0__pyx_f_3mod_twice") == "twice");
    // The third function, whose name begins like a class of three letters: a wrapper is always numbered.
    CHECK(cython_name("__pyx_pw_5hello_3foo_bar") == "foo_bar");
    // A body alone says which scope it is in.
    CHECK(cython_name("__pyx_gb_3mod_5Plain_4generator1") == "Plain.generator1");
    CHECK_FALSE(cython_name("__pyx_tp_dealloc_5hello_Foo"));
    CHECK_FALSE(cython_name("list_sort"));
    CHECK_FALSE(cython_name("__pyx_pw_99999999999999999999hello"));
    CHECK_FALSE(cython_name("__pyx_lambda_funcdef_"));
    CHECK(cython_name("__pyx_pf_3mod_15__pyx_lambda_funcdef_") == "__pyx_lambda_funcdef_");
}

TEST_CASE("cython: the function that makes a generator, by their numbers") {
    CHECK(makes_generator("__pyx_pw_3mod_3counter", "__pyx_gb_3mod_4generator"));
    CHECK(makes_generator("__pyx_pf_3mod_2counter", "__pyx_gb_3mod_4generator"));
    CHECK(makes_generator("__pyx_pw_3mod_6coro", "__pyx_gb_3mod_7generator3"));
    CHECK(makes_generator("__pyx_pw_3mod_3Box_5steps", "__pyx_gb_3mod_3Box_6generator2"));
    CHECK(makes_generator("__pyx_pf_3mod_5outer_3genexpr", "__pyx_gb_3mod_5outer_5generator7"));
    CHECK(makes_generator("__pyx_pf_3lam_7gen_one_5Local_steps", "__pyx_gb_3lam_7gen_one_5Local_2generator2"));
    CHECK(makes_generator("__pyx_pw_3lam_5outer___pyx_lambda_funcdef_lambda", "__pyx_gb_3lam_5outer_1generator"));
    CHECK_FALSE(makes_generator("__pyx_pw_3mod_1run", "__pyx_gb_3mod_4generator"));
    CHECK_FALSE(makes_generator("__pyx_pw_3mod_3Box_3work", "__pyx_gb_3mod_4generator"));
    CHECK_FALSE(makes_generator("__pyx_gb_3mod_3generator", "__pyx_gb_3mod_4generator"));
    CHECK_FALSE(makes_generator("__pyx_pw_3mod_3counter", "__pyx_pw_3mod_4other"));
}

TEST_CASE("cython: the body of a generator has the name of the function that makes it, where there is a symbol of it") {
    const BuildDirectory directory;
    directory.build("shop", "int __pyx_gb_4shop_2generator(void) { return 1; } int __pyx_pw_4shop_1count(void) { return 2; }");
    const ModuleSymbols symbols(directory.open("shop.so"), "/x/shop.so", "shop.so", {});
    CHECK(symbols.python_name("__pyx_gb_4shop_2generator") == "count");
    CHECK(symbols.python_name("__pyx_gb_4shop_7generator1") == "generator1");
    CHECK(symbols.python_name("__pyx_pw_4shop_1count") == "count");
    CHECK_FALSE(symbols.python_name("work"));
}
