// Package volumes holds the kubelet's volume plugins: what upstream's in-tree plugins do with directories and mounts of a
// Linux host, done with a machine's files. Upstream's volume manager decides when, retries and words the events.
package volumes
