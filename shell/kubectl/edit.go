package kubectl

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"reflect"
	"strings"

	"github.com/spf13/cobra"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/scheme"
	"k8s.io/kubectl/pkg/util"
)

// replaceEdit has "kubectl edit" use an editor of the machine, or the user's own when the process has a terminal. Upstream's
// loop can only start programs of the host, so this one takes its place; its rules and words are upstream's
// (cmd/util/editor).
func (i *invocation) replaceEdit() {
	i.find("edit").Run = func(c *cobra.Command, args []string) { cmdutil.CheckErr(i.edit(c, args)) }
	i.find("apply", "edit-last-applied").Run = func(*cobra.Command, []string) { refuse("kubectl apply edit-last-applied") }
	create := i.find("create")
	run := create.Run
	create.Run = func(c *cobra.Command, args []string) {
		if boolFlag(c, "edit") {
			refuse("kubectl create --edit")
		}
		run(c, args)
	}
}

// editing is one session of "kubectl edit".
type editing struct {
	i          *invocation
	namespace  string
	ext        string
	header     bool
	print      func(runtime.Object, *bytes.Buffer) error
	report     func(operation string, o runtime.Object) error
	directive  string
	manager    string
	sub        string
	patch      bool
	saveConfig bool
	record     genericclioptions.Recorder
	managed    map[types.UID][]metav1.ManagedFieldsEntry
	file       string // where the last edit was stored, for the user

	reasons []reason
	retry   int
	missing int
	invalid int
}

type reason struct {
	head  string
	other []string
}

func (i *invocation) edit(c *cobra.Command, args []string) error {
	e := &editing{i: i, ext: ".yaml", header: true, sub: stringFlag(c, "subresource"), patch: boolFlag(c, "output-patch"),
		saveConfig: boolFlag(c, "save-config"), manager: stringFlag(c, "field-manager")}
	format := stringFlag(c, "output")
	printFlags := (&genericclioptions.PrintFlags{JSONYamlPrintFlags: genericclioptions.NewJSONYamlPrintFlags()}).WithDefaultOutput("yaml")
	if format != "" {
		printFlags.OutputFormat = &format
	}
	if format == "json" {
		e.ext, e.header = ".json", false
	}
	e.print = func(o runtime.Object, b *bytes.Buffer) error {
		p, err := printFlags.ToPrinter()
		if err != nil {
			return err
		}
		return p.PrintObj(o, b)
	}
	e.report = func(operation string, o runtime.Object) error {
		f := genericclioptions.NewPrintFlags(operation).WithTypeSetter(scheme.Scheme)
		if format != "" {
			f.OutputFormat = &format
		}
		p, err := f.ToPrinter()
		if err != nil {
			return err
		}
		return p.PrintObj(o, i.streams.Out)
	}
	record := genericclioptions.NewRecordFlags()
	if l := c.Flags().Lookup("record"); l != nil && l.Changed {
		on := boolFlag(c, "record")
		record.Record = &on
	}
	record.Complete(c)
	var err error
	if e.record, err = record.ToRecorder(); err != nil {
		return err
	}
	var enforce bool
	if e.namespace, enforce, err = i.f.ToRawKubeConfigLoader().Namespace(); err != nil {
		return err
	}
	var files resource.FilenameOptions
	files.Filenames, _ = c.Flags().GetStringSlice("filename")
	files.Kustomize, files.Recursive = stringFlag(c, "kustomize"), boolFlag(c, "recursive")
	r := i.f.NewBuilder().Unstructured().ResourceTypeOrNameArgs(true, args...).Latest().
		NamespaceParam(e.namespace).DefaultNamespace().FilenameParam(enforce, &files).Subresource(e.sub).ContinueOnError().Flatten().Do()
	if err := r.Err(); err != nil {
		return err
	}
	if e.directive, err = cmdutil.GetValidationDirective(c); err != nil {
		return err
	}
	infos, err := r.Infos()
	if err != nil {
		return err
	}
	if len(infos) == 0 {
		return errors.New("edit cancelled, no objects found")
	}
	return e.run(infos)
}

func (e *editing) run(infos []*resource.Info) error {
	var original, edited []byte
	again := false
	errOut := e.i.streams.ErrOut
	for {
		object := infos[0].Object
		if len(infos) > 1 {
			l := &unstructured.UnstructuredList{Object: map[string]any{"kind": "List", "apiVersion": "v1", "metadata": map[string]any{}}}
			for _, x := range infos {
				l.Items = append(l.Items, *x.Object.(*unstructured.Unstructured))
			}
			object = l
		}
		buf := &bytes.Buffer{}
		if e.header {
			e.writeHeader(buf)
		}
		if !again {
			if err := e.hideManagedFields(object); err != nil {
				return e.preserved(err)
			}
			if err := e.print(object, buf); err != nil {
				return e.preserved(err)
			}
			original = bytes.Clone(buf.Bytes())
		} else {
			buf.Write(cmdutil.ManualStrip(edited))
		}
		before := edited
		var err error
		if edited, err = e.launch(buf.Bytes()); err != nil {
			return e.preserved(err)
		}
		if again && bytes.Equal(cmdutil.StripComments(before), cmdutil.StripComments(edited)) {
			return e.preserved(errors.New("Edit cancelled, no valid changes were saved."))
		}
		schema, err := e.i.f.Validator(e.directive)
		if err != nil {
			return e.preserved(err)
		}
		if err := schema.ValidateBytes(cmdutil.StripComments(edited)); err != nil {
			e.reasons, again = nil, true
			fmt.Fprintln(errOut, e.failed(apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("").GroupKind(), "",
				field.ErrorList{field.Invalid(nil, "The edited file failed validation", fmt.Sprintf("%v", err))}), infos[0]))
			continue
		}
		if bytes.Equal(cmdutil.StripComments(original), cmdutil.StripComments(edited)) {
			e.forget()
			fmt.Fprintln(errOut, "Edit cancelled, no changes made.")
			return nil
		}
		if !hasLines(edited) {
			e.forget()
			fmt.Fprintln(errOut, "Edit cancelled, saved file was empty.")
			return nil
		}
		e.reasons, e.retry, e.missing, e.invalid = nil, 0, 0, 0
		updated, err := e.i.f.NewBuilder().Unstructured().Stream(bytes.NewReader(edited), "edited-file").Subresource(e.sub).ContinueOnError().Flatten().Do().Infos()
		if err != nil {
			again = true
			e.reasons = append(e.reasons, reason{head: fmt.Sprintf("The edited file had a syntax error: %v", err)})
			continue
		}
		again = false
		if err := errors.Join(e.showManagedFields(updated), e.showManagedFields(infos)); err != nil {
			return e.preserved(err)
		}
		v := resource.InfoListVisitor(updated)
		if err := v.Visit(resource.RequireNamespace(e.namespace)); err != nil {
			return e.preserved(err)
		}
		if err := v.Visit(e.annotate); err != nil {
			return e.preserved(err)
		}
		if err := v.Visit(func(x *resource.Info, _ error) error { return e.send(infos, x) }); err != nil {
			return e.preserved(err)
		}
		switch {
		case e.retry > 0:
			fmt.Fprintf(errOut, "You can run `kubectl replace -f %s` to try this update again.\n", e.file)
			return cmdutil.ErrExit
		case e.missing > 0:
			fmt.Fprintf(errOut, "The edits you made on deleted resources have been saved to %q\n", e.file)
			return cmdutil.ErrExit
		case e.invalid == 0:
			e.forget()
			return nil
		}
		again = len(e.reasons) > 0
	}
}

func (e *editing) writeHeader(b *bytes.Buffer) {
	b.WriteString(`# Please edit the object below. Lines beginning with a '#' will be ignored,
# and an empty file will abort the edit. If an error occurs while saving this file will be
# reopened with the relevant failures.
#
`)
	comment := func(s string) string { return strings.ReplaceAll(s, "\n", "\n# ") }
	for _, r := range e.reasons {
		if len(r.other) > 0 {
			fmt.Fprintf(b, "# %s:\n", comment(r.head))
		} else {
			fmt.Fprintf(b, "# %s\n", comment(r.head))
		}
		for _, o := range r.other {
			fmt.Fprintf(b, "# * %s\n", comment(o))
		}
		b.WriteString("#\n")
	}
}

// launch lets the user edit a text. It is kept in a file of the machine until the edit has succeeded.
func (e *editing) launch(text []byte) ([]byte, error) {
	p := e.i.p
	old := e.file
	dir, err := e.i.temporary("kubectl-edit-")
	if err != nil {
		return nil, err
	}
	p.Files.Remove(dir) // only its name is wanted
	e.file = dir + e.ext
	if err := p.Files.WriteFile(e.file, text, 0o600); err != nil {
		return nil, err
	}
	if p.TTY != nil {
		text, err = p.TTY.Edit(path.Base(e.file), text)
		if err == nil {
			err = p.Files.WriteFile(e.file, text, 0o600)
		}
	} else {
		err = e.program()
		if err == nil {
			text, err = p.Files.ReadFile(e.file)
		}
	}
	if old != "" {
		p.Files.Remove(old)
	}
	return text, err
}

// program runs $KUBE_EDITOR or $EDITOR, vi by default, on the file; a command line with quotes goes to the shell.
func (e *editing) program() error {
	p := e.i.p
	editor := p.Getenv("KUBE_EDITOR")
	if editor == "" {
		editor = p.Getenv("EDITOR")
	}
	if editor == "" {
		editor = "vi"
	}
	argv := append(shellWords(editor), e.file)
	if strings.ContainsAny(editor, "\"'\\") {
		shell := p.Getenv("SHELL")
		if shell == "" {
			shell = "/bin/bash"
		}
		argv = []string{shell, "-c", fmt.Sprintf("%s %q", editor, e.file)}
	}
	st, err := e.i.start(argv, p.Stdin, p.Stdout, p.Stderr)
	switch {
	case isMissing(err):
		return fmt.Errorf("unable to launch the editor %q", editor)
	case err != nil:
		return fmt.Errorf("there was a problem with the editor %q", editor)
	case st.ExitCode() != 0:
		return fmt.Errorf("there was a problem with the editor %q", editor)
	}
	return nil
}

// preserved tells the user where the edit was stored.
func (e *editing) preserved(err error) error {
	if e.file != "" {
		if _, serr := e.i.p.Files.Stat(e.file); serr == nil {
			fmt.Fprintf(e.i.streams.ErrOut, "A copy of your changes has been stored to %q\n", e.file)
		}
	}
	return err
}

func (e *editing) forget() {
	e.i.p.Files.Remove(e.file)
	e.file = ""
}

// failed sorts an error of the server and words it.
func (e *editing) failed(err error, info *resource.Info) string {
	name := info.Mapping.Resource.Resource
	if g := info.Mapping.Resource.Group; g != "" {
		name += "." + g
	}
	switch {
	case apierrors.IsInvalid(err):
		e.invalid++
		r := reason{head: fmt.Sprintf("%s %q was not valid", name, info.Name)}
		if s, ok := err.(apierrors.APIStatus); ok && s.Status().Details != nil {
			for _, cause := range s.Status().Details.Causes {
				r.other = append(r.other, fmt.Sprintf("%s: %s", cause.Field, cause.Message))
			}
		}
		e.reasons = append(e.reasons, r)
		return fmt.Sprintf("error: %s %q is invalid", name, info.Name)
	case apierrors.IsNotFound(err):
		e.missing++
		return fmt.Sprintf("error: %s %q could not be found on the server", name, info.Name)
	}
	e.retry++
	return fmt.Sprintf("error: %s %q could not be patched: %v", name, info.Name, err)
}

func (e *editing) hideManagedFields(o runtime.Object) error {
	e.managed = map[types.UID][]metav1.ManagedFieldsEntry{}
	hide := func(o runtime.Object) error {
		a, err := meta.Accessor(o)
		if err != nil {
			return err
		}
		e.managed[a.GetUID()] = a.GetManagedFields()
		a.SetManagedFields(nil)
		return nil
	}
	if meta.IsListType(o) {
		return meta.EachListItem(o, hide)
	}
	return hide(o)
}

func (e *editing) showManagedFields(infos []*resource.Info) error {
	for _, x := range infos {
		a, err := meta.Accessor(x.Object)
		if err != nil {
			return err
		}
		a.SetManagedFields(e.managed[a.GetUID()])
	}
	return nil
}

func (e *editing) annotate(x *resource.Info, _ error) error {
	if e.saveConfig {
		if err := util.CreateOrUpdateAnnotation(true, x.Object, scheme.DefaultJSONEncoder()); err != nil {
			return err
		}
	}
	e.record.Record(x.Object)
	return nil
}

// send patches one object on the server.
func (e *editing) send(originals []*resource.Info, x *resource.Info) error {
	uid, err := meta.NewAccessor().UID(x.Object)
	if err != nil {
		return err
	}
	var original *resource.Info
	for _, o := range originals {
		if u, err := meta.NewAccessor().UID(o.Object); err != nil {
			return err
		} else if u == uid {
			original = o
			break
		}
	}
	if original == nil {
		return fmt.Errorf("no original object found for %#v", x.Object)
	}
	was, err := runtime.Encode(unstructured.UnstructuredJSONScheme, original.Object)
	if err != nil {
		return err
	}
	is, err := runtime.Encode(unstructured.UnstructuredJSONScheme, x.Object)
	if err != nil {
		return err
	}
	if reflect.DeepEqual(was, is) {
		return e.report("skipped", x.Object)
	}
	changed := errors.New("At least one of apiVersion, kind and name was changed")
	unchanged := []mergepatch.PreconditionFunc{mergepatch.RequireKeyUnchanged("apiVersion"), mergepatch.RequireKeyUnchanged("kind"),
		mergepatch.RequireMetadataKeyUnchanged("name"), mergepatch.RequireKeyUnchanged("managedFields")}
	kind := types.StrategicMergePatchType
	var patch []byte
	versioned, err := scheme.Scheme.New(x.Mapping.GroupVersionKind)
	switch {
	case runtime.IsNotRegisteredError(err):
		kind = types.MergePatchType
		if patch, err = jsonpatch.CreateMergePatch(was, is); err != nil {
			return err
		}
		var m map[string]any
		if err := json.Unmarshal(patch, &m); err != nil {
			return err
		}
		for _, ok := range unchanged {
			if !ok(m) {
				return changed
			}
		}
	case err != nil:
		return err
	default:
		if patch, err = strategicpatch.CreateTwoWayMergePatch(was, is, versioned, unchanged...); err != nil {
			if mergepatch.IsPreconditionFailed(err) {
				return changed
			}
			return err
		}
	}
	if e.patch {
		fmt.Fprintf(e.i.streams.Out, "Patch: %s\n", patch)
	}
	patched, err := resource.NewHelper(x.Client, x.Mapping).WithFieldManager(e.manager).WithFieldValidation(e.directive).WithSubresource(e.sub).
		Patch(x.Namespace, x.Name, kind, patch, nil)
	if err != nil {
		fmt.Fprintln(e.i.streams.ErrOut, e.failed(err, x))
		return nil
	}
	x.Refresh(patched, true)
	return e.report("edited", x.Object)
}

// hasLines says whether a text has any line that is neither empty nor a comment.
func hasLines(b []byte) bool {
	s := bufio.NewScanner(bytes.NewReader(b))
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		if l := strings.TrimSpace(s.Text()); l != "" && l[0] != '#' {
			return true
		}
	}
	return false
}
