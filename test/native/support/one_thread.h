#pragma once

#include <doctest/doctest.h>

/** A test case of which all runs on one thread. The thread sanitizer, which would find nothing in it, leaves it out. */
#ifdef __SANITIZE_THREAD__
#define ONE_THREAD_TEST_CASE(name) [[maybe_unused]] static void DOCTEST_ANONYMOUS(caseOfOneThread)()
#else
#define ONE_THREAD_TEST_CASE(name) TEST_CASE(name)
#endif
