package openssl

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
)

// thread is the number of the thread that OpenSSL puts before each line of its error stack.
func (t *tool) thread() string {
	return fmt.Sprintf("40%08X7F0000", uint32(t.World().Random("openssl threads").Uint64()))
}

// stack prints lines of OpenSSL's error stack.
func (t *tool) stack(lines ...string) {
	thread := t.thread()
	for _, l := range lines {
		t.Errorf("%s:error:%s\n", thread, l)
	}
}

// reason is the C library's text of a file's error, and its number as OpenSSL codes it.
func reason(err error) (text, code string) {
	var n syscall.Errno
	if errors.As(err, &n) {
		text = map[syscall.Errno]string{syscall.ENOENT: "No such file or directory", syscall.EACCES: "Permission denied", syscall.EISDIR: "Is a directory", syscall.ENOTDIR: "Not a directory"}[n]
	}
	switch {
	case text != "":
		return text, fmt.Sprintf("8%07X", int(n))
	case errors.Is(err, fs.ErrNotExist):
		return "No such file or directory", "80000002"
	case errors.Is(err, fs.ErrPermission):
		return "Permission denied", "8000000D"
	}
	return err.Error(), "80000005"
}

// storeError says that a file that OSSL_STORE should load could not be opened: certificates and keys.
func (t *tool) storeError(what, name string, err error) {
	text, code := reason(err)
	t.Errorf("Could not open file or uri for loading %s from %s\n", what, name)
	t.stack("16000069:STORE routines:ossl_store_get0_loader_int:unregistered scheme:../crypto/store/store_register.c:237:scheme=file",
		code+":system library:file_open:"+text+":../providers/implementations/storemgmt/file_store.c:267:calling stat("+name+")")
}

// bioError says that a file that a BIO should read or write could not be opened.
func (t *tool) bioError(name, verb, mode string, err error) {
	text, _ := reason(err)
	t.Errorf("Can't open \"%s\" for %s, %s\n", name, verb, text)
	t.bioStack(name, mode, err)
}

func (t *tool) bioStack(name, mode string, err error) {
	text, code := reason(err)
	second := "10080002:BIO routines:BIO_new_file:system lib:../crypto/bio/bss_file.c:77:"
	if code == "80000002" {
		second = "10000080:BIO routines:BIO_new_file:no such file:../crypto/bio/bss_file.c:75:"
	}
	t.stack(code+":system library:BIO_new_file:"+text+":../crypto/bio/bss_file.c:67:calling fopen("+name+", "+mode+")", second)
}

// input reads a file, or standard input if name is "".
func (t *tool) input(name string) ([]byte, error) {
	if name == "" {
		return io.ReadAll(io.LimitReader(t.Stdin, 16<<20))
	}
	return t.ReadFile(name)
}

// shown is how messages name an input.
func shown(name string) string {
	if name == "" {
		return "<stdin>"
	}
	return name
}

// output writes a result to a file, or to standard output if name is "".
func (t *tool) output(name string, data []byte, private bool) int {
	if name == "" {
		t.Stdout.Write(data)
		return 0
	}
	mode := fs.FileMode(0o666)
	if private {
		mode = 0o600
	}
	if err := t.Files.WriteFile(t.Path(name), data, mode); err != nil {
		t.bioError(name, "writing", "w", err)
		return 1
	}
	return 0
}
