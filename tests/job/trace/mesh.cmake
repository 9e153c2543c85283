# SPDX-License-Identifier: Apache-2.0
# cmake -D MESH=… -D TERN=… -D PYTHON=… -D CHECK=… -D FOLDER=… -P mesh.cmake: a mesh is made with a trace that lacks
# nothing.
set(trace ${FOLDER}/mesh.json)
execute_process(COMMAND ${TERN} run -n 2 --workers 2 -- ${MESH} --quiet --hmin 4 --hmax 40 --tern-trace ${trace}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${PYTHON} ${CHECK} --complete ${trace} COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE ${trace})
