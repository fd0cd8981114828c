package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
)

// Image is one image of a repository. Several tags of a repository may name one image.
type Image struct {
	Repository string // with its registry: "docker.io/library/nginx"
	Tags       []string
	Size       int64 // bytes of the compressed layers, what crictl images shows
	Created    string
	Config     Config
	// Base names the sets of files that lie below Files, lowest first; see [Set].
	Base  []string
	Files []File
}

// Config is the part of an OCI image configuration that a runtime uses. Field names are those of its JSON.
type Config struct {
	User         string              `json:"User,omitempty"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts,omitempty"`
	Env          []string            `json:"Env,omitempty"`
	Entrypoint   []string            `json:"Entrypoint,omitempty"`
	Cmd          []string            `json:"Cmd,omitempty"`
	WorkingDir   string              `json:"WorkingDir,omitempty"`
	Labels       map[string]string   `json:"Labels,omitempty"`
	StopSignal   string              `json:"StopSignal,omitempty"`
}

// File is one file of an image's root. Exactly one of Content, Link and Program is meant; a Mode with fs.ModeDir makes a
// directory. Parent directories come into being with mode 0755.
type File struct {
	Path    string
	Mode    fs.FileMode // 0 means 0644, 0755 for a directory or a program
	UID     int
	GID     int
	Content string
	Link    string // target of a symbolic link
	Program string // the registered program that the executable file holds
	Version string // written into the executable, as a linker does
}

// Spec is the image's configuration as the registry stores it; its hash is the image's id.
func (i *Image) Spec() []byte {
	type history struct {
		Created   string `json:"created"`
		CreatedBy string `json:"created_by"`
	}
	b, err := json.Marshal(struct {
		Architecture string    `json:"architecture"`
		Config       Config    `json:"config"`
		Created      string    `json:"created"`
		History      []history `json:"history"`
		OS           string    `json:"os"`
		RootFS       struct {
			DiffIDs []string `json:"diff_ids"`
			Type    string   `json:"type"`
		} `json:"rootfs"`
	}{
		Architecture: "amd64", Config: i.Config, Created: i.Created, OS: "linux",
		History: []history{{i.Created, i.Repository + ":" + i.Tags[0]}},
		RootFS: struct {
			DiffIDs []string `json:"diff_ids"`
			Type    string   `json:"type"`
		}{[]string{i.ChainID()}, "layers"},
	})
	if err != nil {
		panic(err) // only a type that JSON cannot hold
	}
	return b
}

// ChainID names the image's unpacked layers.
func (i *Image) ChainID() string {
	return digest("layers of " + i.Repository + ":" + i.Tags[0] + " " + fmt.Sprint(i.Size))
}

// ID is the digest of the configuration, which runtimes use as the image's id.
func (i *Image) ID() string { return digest(string(i.Spec())) }

// Digest is the digest of the manifest, by which a registry knows the image.
func (i *Image) Digest() string { return digest("manifest of " + i.ID()) }

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Host is the registry part of a repository's name.
func Host(repository string) string {
	host, _, _ := strings.Cut(repository, "/")
	return host
}
