# Run by CPack before it packs: copyright and changelog of each package, man pages compressed.
file(GLOB packages LIST_DIRECTORIES true ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*)
foreach(package IN LISTS packages)
    get_filename_component(component ${package} NAME)
    string(TOUPPER ${component} component)
    set(name ${CPACK_DEBIAN_${component}_PACKAGE_NAME})
    if(NOT name)
        continue()
    endif()
    set(documents ${package}/usr/share/doc/${name})
    file(MAKE_DIRECTORY ${documents})
    file(COPY ${CPACK_PACKAGE_DIRECTORY}/debian/copyright DESTINATION ${documents})
    string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # of SOURCE_DATE_EPOCH, where that is set
    file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../../CHANGELOG.md releases REGEX "^## [0-9]")
    foreach(release IN LISTS releases)
        string(SUBSTRING ${release} 3 -1 release)
        file(APPEND ${documents}/changelog.Debian
            "penstock (${release}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium\n\n"
            "  * Release ${release}.\n\n -- ${CPACK_PACKAGE_CONTACT}  ${date}\n\n")
    endforeach()
    file(GLOB pages ${package}/usr/share/man/man1/*.1)
    execute_process(COMMAND gzip -9n ${documents}/changelog.Debian ${pages} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
