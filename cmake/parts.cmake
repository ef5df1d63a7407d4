# SPDX-License-Identifier: Apache-2.0
#
# Third-party parts: Debian packages by find_package, the rest from the cache directory.

find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(simdjson REQUIRED)
find_package(CLI11 REQUIRED)

file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../tools/pins.txt pins REGEX "^(openvino|llama) ")
foreach(pin ${pins})
  string(REGEX MATCHALL "[^ ]+" words "${pin}")
  list(GET words 0 name)
  list(GET words 1 version)
  set(${name}_pin ${version})
endforeach()

set(OpenVINO_DIR ${INCIPIT_HOME}/openvino-${openvino_pin}/openvino/cmake)
find_package(OpenVINO ${openvino_pin} EXACT REQUIRED COMPONENTS Runtime NO_DEFAULT_PATH)

set(llama_root ${INCIPIT_HOME}/llama.cpp-${llama_pin})
add_library(incipit_llama INTERFACE)
target_include_directories(incipit_llama SYSTEM INTERFACE ${llama_root}/include)
target_link_libraries(incipit_llama INTERFACE
  ${llama_root}/lib/libllama.a ${llama_root}/lib/libincipit_jinja.a ${llama_root}/lib/libggml.a
  ${llama_root}/lib/libggml-cpu.a ${llama_root}/lib/libggml-base.a Threads::Threads dl)

find_library(XXHASH_LIBRARY xxhash REQUIRED)
set(incipit_parts incipit_llama openvino::runtime OpenSSL::Crypto simdjson::simdjson ${XXHASH_LIBRARY})
set(incipit_app_parts CLI11::CLI11)
