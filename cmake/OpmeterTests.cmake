# SPDX-License-Identifier: Apache-2.0
# opmeter_test(NAME SOURCES a.cc ... LABEL unit|model|preload|clients LIBS opmeter::x ... [DEFINES A=b ...])
# One GoogleTest program; each of its tests is a ctest of its own with that label.
function(opmeter_test name)
  cmake_parse_arguments(arg "" "LABEL;LABELS" "SOURCES;LIBS;DEFINES" ${ARGN})
  if(NOT arg_LABEL)
    set(arg_LABEL "${arg_LABELS}")
  endif()
  add_executable(${name} ${arg_SOURCES} ${arg_UNPARSED_ARGUMENTS})
  opmeter_target(${name})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} GTest::gtest GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_compile_definitions(${name} PRIVATE
    "OPMETER_TEST_DATA=\"${PROJECT_SOURCE_DIR}/tests/data\""
    "OPMETER_SHARED_DATA=\"${PROJECT_SOURCE_DIR}/../shared/data\""
    ${arg_DEFINES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "${arg_LABEL}" TIMEOUT 300)
endfunction()
