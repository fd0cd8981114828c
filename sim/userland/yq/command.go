package yq

import (
	"bytes"
	"container/list"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mikefarah/yq/v4/pkg/yqlib"
	"github.com/spf13/pflag"

	"ckadrill/sim/userland/libc"
)

// evaluation is the simulated time that one evaluation takes.
const evaluation = 200 * time.Microsecond

// invocation is one run of yq with its flags.
type invocation struct {
	*libc.Prog
	in, out, expression, expressionFile                              string
	indent                                                           int
	inPlace, null, noSeparators, pretty, exitStatus, colors, noColor bool
	json, nul, unwrap, help, version                                 bool
}

func run(c *libc.Prog) int {
	tame()
	i := &invocation{Prog: c}
	f := i.flags()
	if err := f.Parse(c.Args); err != nil {
		c.Errorf("Error: %v\n", err)
		return 1
	}
	args, together := f.Args(), false
	if len(args) > 0 {
		switch args[0] {
		case "eval", "e":
			args = args[1:]
		case "eval-all", "ea":
			args, together = args[1:], true
		case "help":
			i.help = true
		}
	}
	if i.version {
		c.Put("yq (https://github.com/mikefarah/yq/) version %s\n", version)
		return 0
	}
	if i.help || len(args) == 0 && !i.null && c.IsTerminal(c.Stdin) {
		c.Put(usage, f.FlagUsages())
		return 0
	}
	if f.Changed("tojson") {
		c.Errorf("Flag --tojson has been deprecated, please use -o=json instead\n")
	}
	if err := i.evaluate(f.Changed("unwrapScalar"), args, together); err != nil {
		c.Out.Flush()
		c.Errorf("Error: %v\n", err)
		return 1
	}
	return 0
}

const usage = `Usage:
  yq [flags]
  yq [command]

Examples:

# read the "stuff" node from "myfile.yml"
yq '.stuff' myfile.yml

# update myfile.yml in place
yq -i '.stuff = "foo"' myfile.yml

# print what kubectl shows as JSON
kubectl get nodes -o yaml | yq -o json

Available Commands:
  eval        (default) Apply the expression to each document in each yaml file in sequence
  eval-all    Loads _all_ yaml documents of _all_ yaml files and runs expression once

Flags:
%s`

// flags are yq's, as far as they are simulated.
func (i *invocation) flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("yq", pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.SortFlags = false
	f.BoolVarP(&i.help, "help", "h", false, "help for yq")
	f.BoolVarP(&i.version, "version", "V", false, "Print version information and quit")
	f.StringVarP(&i.out, "output-format", "o", "auto", "[auto|a|"+yqlib.GetAvailableOutputFormatString()+"] output format type.")
	f.StringVarP(&i.in, "input-format", "p", "auto", "[auto|a|"+yqlib.GetAvailableInputFormatString()+"] parse format for input.")
	f.BoolVarP(&i.json, "tojson", "j", false, "(deprecated) output as json. Set indent to 0 to print json in one line.")
	f.MarkHidden("tojson")
	f.BoolVarP(&i.null, "null-input", "n", false, "Don't read input, simply evaluate the expression given. Useful for creating docs from scratch.")
	f.BoolVarP(&i.noSeparators, "no-doc", "N", false, "Don't print document separators (---)")
	f.IntVarP(&i.indent, "indent", "I", 2, "sets indent level for output")
	f.BoolVarP(&i.inPlace, "inplace", "i", false, "update the file in place of first file given.")
	f.BoolVarP(&i.unwrap, "unwrapScalar", "r", true, "unwrap scalar, print the value with no quotes, colors or comments. Defaults to true for yaml")
	f.BoolVarP(&i.nul, "nul-output", "0", false, "Use NUL char to separate values. If unwrap scalar is also set, fail if unwrapped scalar contains NUL char.")
	f.BoolVarP(&i.pretty, "prettyPrint", "P", false, "pretty print, shorthand for '... style = \"\"'")
	f.BoolVarP(&i.exitStatus, "exit-status", "e", false, "set exit status if there are no matches or null or false is returned")
	f.BoolVarP(&i.colors, "colors", "C", false, "force print with colors")
	f.BoolVarP(&i.noColor, "no-colors", "M", false, "force print with no colors")
	f.StringVar(&i.expression, "expression", "", "forcibly set the expression argument. Useful when yq argument detection thinks your expression is a file.")
	f.StringVar(&i.expressionFile, "from-file", "", "Load expression from specified file.")
	for _, absent := range [][2]string{{"front-matter", "f"}, {"split-exp", "s"}} {
		f.VarP(notSimulated(absent[0]), absent[0], absent[1], "")
		f.MarkHidden(absent[0])
	}
	return f
}

// notSimulated is a flag that yq has and ckadrill has not.
type notSimulated string

func (n notSimulated) String() string { return "" }
func (n notSimulated) Type() string   { return "string" }
func (n notSimulated) Set(string) error {
	return fmt.Errorf("ckadrill does not simulate yq --%s yet", string(n))
}

// isFile tells whether an argument names a file, as yq finds out what is an expression.
func (i *invocation) isFile(name string) bool {
	info, err := i.Files.Stat(i.Path(name))
	return err == nil && !info.IsDir()
}

// arguments sorts the operands into the expression and the files, as yq's processArgs does.
func (i *invocation) arguments(args []string) (expression string, files []string, err error) {
	if !i.null && !i.IsTerminal(i.Stdin) && len(args) <= 1 && (len(args) == 0 || args[0] != "-" && !i.isFile(args[0])) {
		args = append(args, "-")
	}
	expression = i.expression
	if i.expressionFile == "" && len(args) > 0 && strings.HasSuffix(args[0], ".yq") && i.isFile(args[0]) {
		i.expressionFile, args = args[0], args[1:]
	}
	if i.expressionFile != "" {
		b, err := i.InputAll(i.expressionFile)
		if err != nil {
			return "", nil, openError(i.expressionFile, err)
		}
		expression = strings.ReplaceAll(string(b), "\r\n", "\n")
	}
	if expression == "" && len(args) > 0 && args[0] != "-" && !i.isFile(args[0]) {
		expression, args = args[0], args[1:]
	}
	switch {
	case i.inPlace && (len(args) == 0 || args[0] == "-"):
		return "", nil, errors.New("write in place flag only applicable when giving an expression and at least one file")
	case i.null && len(args) > 0:
		return "", nil, errors.New("cannot pass files in when using null-input flag")
	}
	if i.pretty {
		pretty := `(... | (select(tag != "!!str"), select(tag == "!!str") | select(test("(?i)^(y|yes|n|no|on|off)$") | not))  ) style=""`
		if expression != "" {
			pretty = expression + " | " + pretty
		}
		expression = pretty
	}
	return expression, args, nil
}

func openError(name string, err error) error {
	return fmt.Errorf("open %s: %s", name, strings.ToLower(libc.Strerror(err)))
}

// formats finds out what to read and to write, by the flags and by the name of the first file.
func (i *invocation) formats(unwrapGiven bool, files []string) (in, out *yqlib.Format, err error) {
	auto := func(s string) bool { return s == "" || s == "auto" || s == "a" }
	first := ""
	if len(files) > 0 {
		first = files[0]
	}
	if i.json {
		i.out = "json"
	}
	if auto(i.in) {
		if i.in = yqlib.FormatStringFromFilename(first); i.in == "lua" {
			i.in = "yaml"
		}
		if _, err := yqlib.FormatFromString(i.in); err != nil {
			i.in = "yaml"
		}
		if auto(i.out) {
			i.out = i.in
		}
	} else if auto(i.out) {
		i.out = "yaml"
	}
	if out, err = yqlib.FormatFromString(i.out); err != nil {
		return nil, nil, err
	}
	if in, err = yqlib.FormatFromString(i.in); err != nil {
		return nil, nil, err
	}
	for _, f := range []*yqlib.Format{in, out} {
		if f == yqlib.LuaFormat {
			return nil, nil, errors.New("ckadrill does not simulate yq's format lua yet")
		}
	}
	if !unwrapGiven {
		i.unwrap = out == yqlib.YamlFormat || out == yqlib.PropertiesFormat
	}
	return in, out, nil
}

// encoder writes what is found. Upstream's factories take their settings from the host process.
func (i *invocation) encoder(f *yqlib.Format, colors bool) (yqlib.Encoder, error) {
	switch f {
	case yqlib.YamlFormat:
		p := yqlib.NewDefaultYamlPreferences()
		p.Indent, p.ColorsEnabled, p.PrintDocSeparators, p.UnwrapScalar = i.indent, colors, !i.noSeparators, i.unwrap
		return yqlib.NewYamlEncoder(p), nil
	case yqlib.JSONFormat:
		p := yqlib.NewDefaultJsonPreferences()
		p.Indent, p.ColorsEnabled, p.UnwrapScalar = i.indent, colors, i.unwrap
		return yqlib.NewJSONEncoder(p), nil
	case yqlib.PropertiesFormat:
		p := yqlib.NewDefaultPropertiesPreferences()
		p.UnwrapScalar = i.unwrap
		return yqlib.NewPropertiesEncoder(p), nil
	}
	if f.EncoderFactory == nil {
		return nil, fmt.Errorf("no support for %s output format", i.out)
	}
	return f.EncoderFactory(), nil
}

func (i *invocation) decoder(f *yqlib.Format, together bool) (yqlib.Decoder, error) {
	if f == yqlib.YamlFormat {
		p := yqlib.NewDefaultYamlPreferences()
		p.EvaluateTogether = together
		return yqlib.NewYamlDecoder(p), nil
	}
	if f.DecoderFactory == nil {
		return nil, fmt.Errorf("no support for %s input format", i.in)
	}
	return f.DecoderFactory(), nil
}

// each applies the expression to one document after the other.
func (i *invocation) each(node *yqlib.ExpressionNode, files []string, printer yqlib.Printer, d yqlib.Decoder) error {
	s := yqlib.NewStreamEvaluator()
	seen := uint(0)
	for _, name := range files {
		r, err := i.Input(name)
		if err != nil {
			return openError(name, err)
		}
		n, err := s.Evaluate(name, r, node, printer, d)
		r.Close()
		if err != nil {
			return err
		}
		seen += n
	}
	if seen > 0 {
		return nil
	}
	return nothing(node, printer)
}

// together applies the expression once to all documents.
func (i *invocation) together(node *yqlib.ExpressionNode, files []string, printer yqlib.Printer, d yqlib.Decoder) error {
	documents := list.New()
	for n, name := range files {
		b, err := i.InputAll(name)
		if err != nil {
			return openError(name, err)
		}
		if err := d.Init(bytes.NewReader(b)); err != nil {
			return err
		}
		for at := uint(0); ; at++ {
			document, err := d.Decode()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return fmt.Errorf("bad file '%v': %w", name, err)
			}
			document.SetDocument(at)
			document.SetFileIndex(n)
			document.SetFilename(name)
			document.EvaluateTogether = true
			documents.PushBack(document)
		}
	}
	if documents.Len() == 0 {
		return nothing(node, printer)
	}
	return apply(node, documents, printer)
}

// nothing applies the expression to an empty document.
func nothing(node *yqlib.ExpressionNode, printer yqlib.Printer) error {
	empty := list.New()
	empty.PushBack(&yqlib.CandidateNode{Kind: yqlib.ScalarNode, Tag: "!!null"})
	return apply(node, empty, printer)
}

func apply(node *yqlib.ExpressionNode, documents *list.List, printer yqlib.Printer) error {
	found, err := yqlib.NewDataTreeNavigator().GetMatchingNodes(yqlib.Context{MatchingNodes: documents}, node)
	if err != nil {
		return err
	}
	return printer.PrintResults(found.MatchingNodes)
}

func (i *invocation) evaluate(unwrapGiven bool, args []string, together bool) error {
	expression, files, err := i.arguments(args)
	if err != nil {
		return err
	}
	in, out, err := i.formats(unwrapGiven, files)
	if err != nil {
		return err
	}
	var w io.Writer = i.Out
	var changed bytes.Buffer
	colors := i.colors || !i.noColor && i.IsTerminal(i.Stdout)
	if i.inPlace {
		w, colors = &changed, i.colors
	}
	e, err := i.encoder(out, colors)
	if err != nil {
		return err
	}
	d, err := i.decoder(in, together)
	if err != nil {
		return err
	}
	node, err := yqlib.ExpressionParser.ParseExpression(expression)
	if err != nil {
		return err
	}
	if err := i.Spend(evaluation); err != nil {
		return err
	}
	printer := yqlib.NewPrinter(e, yqlib.NewSinglePrinterWriter(w))
	printer.SetNulSepOutput(i.nul)
	if together {
		err = i.together(node, files, printer, d)
	} else {
		err = i.each(node, files, printer, d)
	}
	if err != nil {
		return err
	}
	if i.exitStatus && !printer.PrintedAnything() {
		return errors.New("no matches found")
	}
	if !i.inPlace {
		return nil
	}
	return i.write(files[0], changed.Bytes())
}

// write puts the result in the file's place, with the file's mode.
func (i *invocation) write(name string, b []byte) error {
	f, err := i.Files.OpenFile(i.Path(name), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return openError(name, err)
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}
