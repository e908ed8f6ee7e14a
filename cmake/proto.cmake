# holdfast_proto: the messages and services of proto/, generated into the build directory.

find_package(Protobuf REQUIRED)
find_package(gRPC REQUIRED)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

file(GLOB proto_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/proto/holdfast/v1/*.proto)
set(proto_out ${CMAKE_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${proto_out})

set(proto_sources)
foreach(proto ${proto_files})
  get_filename_component(stem ${proto} NAME_WE)
  set(base ${proto_out}/holdfast/v1/${stem})
  add_custom_command(
    OUTPUT ${base}.pb.cc ${base}.pb.h ${base}.grpc.pb.cc ${base}.grpc.pb.h
    COMMAND protobuf::protoc --proto_path=${CMAKE_SOURCE_DIR}/proto --cpp_out=${proto_out}
      --grpc_out=${proto_out} --plugin=protoc-gen-grpc=${GRPC_CPP_PLUGIN} ${proto}
    DEPENDS ${proto_files}
    VERBATIM)
  list(APPEND proto_sources ${base}.pb.cc ${base}.grpc.pb.cc)
endforeach()

add_library(holdfast_proto STATIC ${proto_sources})
target_include_directories(holdfast_proto SYSTEM PUBLIC ${proto_out})
target_link_libraries(holdfast_proto PUBLIC protobuf::libprotobuf gRPC::grpc++)
