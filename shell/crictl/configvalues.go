package crictl

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

type containerEvent = runtimeapi.ContainerEventResponse

// values are the options by their names.
func (c *config) values() map[string]string {
	return map[string]string{
		"runtime-endpoint": c.RuntimeEndpoint, "image-endpoint": c.ImageEndpoint, "timeout": strconv.Itoa(c.Timeout), "debug": strconv.FormatBool(c.Debug),
		"pull-image-on-create": strconv.FormatBool(c.PullImageOnCreate), "disable-pull-on-run": strconv.FormatBool(c.DisablePullOnRun),
	}
}

// set changes an option by its name.
func (c *config) set(key, value string) (err error) {
	switch key {
	case "runtime-endpoint":
		c.RuntimeEndpoint = value
	case "image-endpoint":
		c.ImageEndpoint = value
	case "timeout":
		c.Timeout, err = strconv.Atoi(value)
	case "debug":
		c.Debug, err = strconv.ParseBool(value)
	case "pull-image-on-create":
		c.PullImageOnCreate, err = strconv.ParseBool(value)
	case "disable-pull-on-run":
		c.DisablePullOnRun, err = strconv.ParseBool(value)
	default:
		return fmt.Errorf("no configuration option named %s", key)
	}
	if err != nil {
		return fmt.Errorf("parse %s value '%s': %w", key, value, err)
	}
	return nil
}

// cutOnce splits "key=value", which must have one equals sign.
func cutOnce(s string) (key, value string, ok bool) {
	if strings.Count(s, "=") != 1 {
		return "", "", false
	}
	return strings.Cut(s, "=")
}

// plainJSON is a value by Go's own rules, without the fields that are empty.
func plainJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil || string(b) == "null" {
		return nil
	}
	return b
}
