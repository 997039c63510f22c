# The installed library as the target urma::urma:
#
#   find_package(urma REQUIRED)
#   target_link_libraries(program PRIVATE urma::urma)

get_filename_component(_urma_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET urma::urma)
  add_library(urma::urma SHARED IMPORTED)
  set_target_properties(
    urma::urma
    PROPERTIES IMPORTED_LOCATION "${_urma_prefix}/lib/liburma.so.0"
               IMPORTED_SONAME "liburma.so.0"
               INTERFACE_INCLUDE_DIRECTORIES "${_urma_prefix}/include")
endif()

unset(_urma_prefix)
