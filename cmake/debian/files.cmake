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
    file(WRITE ${documents}/changelog.Debian
        "penstock (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium\n\n"
        "  * Release ${CPACK_PACKAGE_VERSION}.\n\n -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
    # There is no bug of Debian's that asks for the package.
    file(WRITE ${package}/usr/share/lintian/overrides/${name} "${name}: initial-upload-closes-no-bugs\n")
    file(GLOB pages ${package}/usr/share/man/man1/*.1)
    execute_process(COMMAND gzip -9n ${documents}/changelog.Debian ${pages} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
