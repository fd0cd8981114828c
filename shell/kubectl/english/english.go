// Package english keeps kubectl's messages as they stand in its source, which is what its English catalogue says too.
// Loading that catalogue, as upstream does while the program starts, takes a fifth of all that the program's packages do
// at their start; and the language of the host would decide what a simulated machine prints.
//
// It is a package of its own, which needs nothing else of kubectl, since it must be initialised before the packages that
// use messages: among those that are ready Go takes the first by name.
package english

import "k8s.io/kubectl/pkg/util/i18n"

func init() {
	if err := i18n.SetLoadTranslationsFunc(func() error { return nil }); err != nil {
		panic(err)
	}
}
