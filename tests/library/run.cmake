# SPDX-License-Identifier: Apache-2.0
#
# Installs incipit, builds examples/library against the installed copy, and runs it on a real
# model. Called by ctest with -DBUILD, -DSOURCE, -DHOME and -DWORK.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
file(WRITE ${WORK}/tickets.txt "My card was charged twice.\nThe app crashes at start.\n")

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/install)
run(${CMAKE_COMMAND} -S ${SOURCE}/examples/library -B ${WORK}/build -G Ninja
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH=${WORK}/install)
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/install/bin/incipit --version)

execute_process(COMMAND ${WORK}/build/sort_tickets
                        ${HOME}/models/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf
                INPUT_FILE ${WORK}/tickets.txt OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
message("${output}")
if(NOT output MATCHES "^(billing|technical|account)\t[0-9.]+\tMy card .*\n(billing|technical|account)\t[0-9.]+\tThe app .*\n$")
  message(FATAL_ERROR "expected a label, a confidence and the text of each of the two tickets")
endif()
file(REMOVE_RECURSE ${WORK})
