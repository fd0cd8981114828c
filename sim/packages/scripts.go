package packages

import "strings"

// unitScripts are the maintainer scripts of a package with systemd units (names with spaces between them), as debhelper
// generates them: the units are enabled when the package is installed first, and stopped when it goes. start says whether
// they are also started, and restarted by an upgrade.
func unitScripts(units string, start bool) map[string]string {
	postinst := `#!/bin/sh
set -e
if [ "$1" = "configure" ] || [ "$1" = "abort-upgrade" ] || [ "$1" = "abort-deconfigure" ] || [ "$1" = "abort-remove" ] ; then
	for unit in UNITS; do
		deb-systemd-helper unmask $unit >/dev/null || true
		if deb-systemd-helper --quiet was-enabled $unit; then
			deb-systemd-helper enable $unit >/dev/null || true
		else
			deb-systemd-helper update-state $unit >/dev/null || true
		fi
	done
fi
`
	if start {
		postinst += `if [ "$1" = "configure" ] ; then
	if [ -d /run/systemd/system ]; then
		systemctl --system daemon-reload >/dev/null || true
		if [ -n "$2" ]; then
			_dh_action=restart
		else
			_dh_action=start
		fi
		deb-systemd-invoke $_dh_action UNITS >/dev/null || true
	fi
fi
`
	}
	scripts := map[string]string{
		"postinst": postinst,
		"prerm": `#!/bin/sh
set -e
if [ -d /run/systemd/system ] && [ "$1" = remove ]; then
	deb-systemd-invoke stop UNITS >/dev/null || true
fi
`,
		"postrm": `#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ] ; then
	systemctl --system daemon-reload >/dev/null || true
fi
if [ "$1" = "purge" ]; then
	deb-systemd-helper purge UNITS >/dev/null || true
fi
`,
	}
	for k, s := range scripts {
		scripts[k] = strings.ReplaceAll(s, "UNITS", units)
	}
	return scripts
}
