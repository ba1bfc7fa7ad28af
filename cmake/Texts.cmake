# Writes files as arrays of bytes, each ended by a 0, and a table of them. Usage:
# cmake -D FILES="a.h;b.cu" -D OUT=texts.c -P Texts.cmake
set(arrays "")
set(table "")
set(number 0)
foreach(file ${FILES})
    file(READ ${file} bytes HEX)
    get_filename_component(name ${file} NAME)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(APPEND arrays "static const unsigned char text_${number}[] = {${bytes}0};\n")
    string(APPEND table "    {\"${name}\", text_${number}},\n")
    math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUT} "/* Made by cmake/Texts.cmake. */\n#include \"compute/cuda/texts.h\"\n
${arrays}\nconst struct cuda_text cuda_texts[] = {\n${table}    {0, 0},\n};\n")
