# SPDX-License-Identifier: Apache-2.0
# What every target of ours shares. Called per target: no global flags.

# opmeter_target(TARGET): language level, warnings, hidden visibility, sanitizers.
function(opmeter_target target)
  set_target_properties(${target} PROPERTIES
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
    C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden C_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion
    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
    $<$<BOOL:${OPMETER_WERROR}>:-Werror>)
  if(OPMETER_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${OPMETER_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${OPMETER_SANITIZE})
  endif()
endfunction()

# opmeter_library(NAME SOURCES...): static library opmeter_NAME with alias opmeter::NAME; the repository root is its
# include directory, so that an include names the folder it crosses into ("profiler/trace/reader.h").
function(opmeter_library name)
  add_library(opmeter_${name} STATIC ${ARGN})
  add_library(opmeter::${name} ALIAS opmeter_${name})
  opmeter_target(opmeter_${name})
  target_include_directories(opmeter_${name} PUBLIC "${PROJECT_SOURCE_DIR}")
endfunction()

# opmeter_zone_a_target(TARGET): code that lives inside other people's programs: no exceptions, no RTTI, no
# thread-safe statics (they lock), never a sanitizer (its runtime would have to be first in the program).
function(opmeter_zone_a_target target)
  set(OPMETER_SANITIZE "")
  opmeter_target(${target})
  target_include_directories(${target} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
  target_compile_options(${target} PRIVATE
    -fno-exceptions -fno-rtti -fno-threadsafe-statics -fasynchronous-unwind-tables -fno-builtin-malloc
    -ftls-model=initial-exec)
  # A hook and what it records are one path of some hundred instructions over five files.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    set_target_properties(${target} PROPERTIES INTERPROCEDURAL_OPTIMIZATION ON)
  endif()
endfunction()
