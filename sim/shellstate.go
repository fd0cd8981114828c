package sim

import "encoding/json"

// A shell's state is frozen as JSON: its maps are written in order, so that equal states are equal bytes.

func encodeShell(f frozenShell) []byte {
	b, err := json.Marshal(f)
	if err != nil {
		panic(err) // only a type that JSON cannot encode
	}
	return b
}

func decodeShell(b []byte) (f frozenShell, err error) {
	err = json.Unmarshal(b, &f)
	return f, err
}
