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

# In link order. An installed incipit brings copies of them (cmake/install.cmake).
set(llama_root ${INCIPIT_HOME}/llama.cpp-${llama_pin})
add_library(incipit_llama INTERFACE)
target_include_directories(incipit_llama SYSTEM INTERFACE $<BUILD_INTERFACE:${llama_root}/include>)
foreach(part llama incipit_json_schema incipit_jinja ggml ggml-cpu ggml-base)
  list(APPEND llama_libraries ${llama_root}/lib/lib${part}.a)
  target_link_libraries(incipit_llama INTERFACE
    $<BUILD_INTERFACE:${llama_root}/lib/lib${part}.a>
    $<INSTALL_INTERFACE:$<INSTALL_PREFIX>/lib/incipit/lib${part}.a>)
endforeach()
target_link_libraries(incipit_llama INTERFACE Threads::Threads ${CMAKE_DL_LIBS})

find_library(XXHASH_LIBRARY xxhash REQUIRED)
set(incipit_parts incipit_llama openvino::runtime OpenSSL::Crypto simdjson::simdjson ${XXHASH_LIBRARY})
set(incipit_app_parts CLI11::CLI11)
