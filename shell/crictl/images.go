package crictl

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/docker/go-units"
	"github.com/urfave/cli/v2"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"ckadrill/sim/runtime"
)

const filterUsage = "Filter output based on provided conditions.\nAvailable filters: \n* dangling=(boolean - true or false)\n* reference=/regular expression/\n* before=<image-name>[:<tag>]|<image id>|<image@digest>\n* since=<image-name>[:<tag>]|<image id>|<image@digest>\nMultiple filters can be combined together."

// listImages finds images in order of their names.
func (t *tool) listImages(i *runtime.ImageClient, name string, filters []string) ([]*runtimeapi.Image, error) {
	l, err := i.ListImages(t.ctx, &runtimeapi.ImageFilter{Image: &runtimeapi.ImageSpec{Image: name}})
	if err != nil {
		return nil, err
	}
	sort.SliceStable(l, func(a, b int) bool {
		x, y := l[a], l[b]
		switch {
		case len(x.RepoTags) > 0 && len(y.RepoTags) > 0:
			return x.RepoTags[0] < y.RepoTags[0]
		case len(x.RepoDigests) > 0 && len(y.RepoDigests) > 0:
			return x.RepoDigests[0] < y.RepoDigests[0]
		}
		return x.Id < y.Id
	})
	for _, f := range filters {
		if l, err = filterImages(l, f); err != nil {
			return nil, fmt.Errorf("filter images: %w", err)
		}
	}
	return l, nil
}

func filterImages(l []*runtimeapi.Image, f string) ([]*runtimeapi.Image, error) {
	key, value, _ := strings.Cut(f, "=")
	keep := func(ok func(*runtimeapi.Image) bool) []*runtimeapi.Image {
		return slices.DeleteFunc(slices.Clone(l), func(i *runtimeapi.Image) bool { return !ok(i) })
	}
	until := func(l []*runtimeapi.Image) (out []*runtimeapi.Image) {
		for _, i := range l {
			if isImage(i, value) {
				break
			}
			out = append(out, i)
		}
		return out
	}
	switch key {
	case "dangling":
		return keep(func(i *runtimeapi.Image) bool { return (len(i.RepoTags) == 0) == (value == "true") }), nil
	case "reference":
		re, err := regexp.Compile(value)
		if err != nil {
			return nil, err
		}
		return keep(func(i *runtimeapi.Image) bool {
			name, _ := repoDigest(i.RepoDigests)
			return re.MatchString(name) || name == value
		}), nil
	case "since":
		return until(l), nil
	case "before":
		l = slices.Clone(l)
		slices.Reverse(l)
		l = until(l)
		slices.Reverse(l)
		return l, nil
	}
	return nil, fmt.Errorf("unknown filter flag: %s", f)
}

func isImage(i *runtimeapi.Image, s string) bool {
	switch {
	case strings.Contains(s, "@"):
		return len(i.RepoDigests) > 0 && strings.HasPrefix(i.RepoDigests[0], s)
	case strings.Contains(s, ":"):
		return len(i.RepoTags) > 0 && i.RepoTags[0] == s
	}
	return strings.HasPrefix(i.Id, s)
}

// repoDigest splits an image's first digest into its repository and the digest.
func repoDigest(l []string) (repo, digest string) {
	if len(l) == 0 {
		return "<none>", "<none>"
	}
	repo, digest, ok := strings.Cut(l[0], "@")
	if !ok {
		return "errorName", "errorRepoDigest"
	}
	return repo, digest
}

// repoTags splits an image's tags into repository and tag.
func repoTags(tags []string, name string) (l [][2]string) {
	if len(tags) == 0 {
		return [][2]string{{name, "<none>"}}
	}
	for _, s := range tags {
		i := strings.LastIndex(s, ":")
		if i < 0 {
			l = append(l, [2]string{"errorRepoTag", "errorRepoTag"})
			continue
		}
		l = append(l, [2]string{s[:i], s[i+1:]})
	}
	return l
}

func (t *tool) imagesCommand() *cli.Command {
	return &cli.Command{Name: "images", Aliases: []string{"image", "img"}, Usage: "List images", ArgsUsage: "[REPOSITORY[:TAG]]", UseShortOptionHandling: true,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "Show verbose info for images"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "Only show image IDs"},
			&cli.StringSliceFlag{Name: "filter", Aliases: []string{"f"}, Usage: filterUsage},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "Output format, One of: json|yaml|table"},
			&cli.BoolFlag{Name: "digests", Usage: "Show digests"},
			&cli.BoolFlag{Name: "no-trunc", Usage: "Show output without truncating the ID"},
			&cli.BoolFlag{Name: "pinned", Usage: "Show whether the image is pinned or not"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return cli.ShowSubcommandHelp(c)
			}
			i, err := t.images()
			if err != nil {
				return err
			}
			l, err := t.listImages(i, c.Args().First(), c.StringSlice("filter"))
			if err != nil {
				return fmt.Errorf("listing images: %w", err)
			}
			switch c.String("output") {
			case "json":
				return t.outputJSON(&runtimeapi.ListImagesResponse{Images: l})
			case "yaml":
				return t.outputYAML(&runtimeapi.ListImagesResponse{Images: l})
			}
			return t.printImages(c, l)
		}}
}

func (t *tool) printImages(c *cli.Context, l []*runtimeapi.Image) error {
	verbose, quiet, digests, pinned := c.Bool("verbose"), c.Bool("quiet"), c.Bool("digests"), c.Bool("pinned")
	tab := newTable(t.p.Stdout)
	row := func(name, tag, digest, id, size, pin string) {
		cells := []string{name, tag}
		if digests {
			cells = append(cells, digest)
		}
		cells = append(cells, id, size)
		if pinned {
			cells = append(cells, pin)
		}
		tab.row(cells...)
	}
	if !verbose && !quiet {
		row("IMAGE", "TAG", "DIGEST", "IMAGE ID", "SIZE", "PINNED")
	}
	for _, i := range l {
		switch {
		case quiet:
			t.println(i.Id)
		case verbose:
			t.printf("ID: %s\n", i.Id)
			for _, s := range i.RepoTags {
				t.printf("RepoTags: %s\n", s)
			}
			for _, s := range i.RepoDigests {
				t.printf("RepoDigests: %s\n", s)
			}
			if i.Size != 0 {
				t.printf("Size: %d\n", i.Size)
			}
			if i.Uid != nil {
				t.printf("Uid: %v\n", i.Uid)
			}
			if i.Username != "" {
				t.printf("Username: %v\n", i.Username)
			}
			if i.Pinned {
				t.printf("Pinned: %v\n", i.Pinned)
			}
			t.println()
		default:
			name, digest := repoDigest(i.RepoDigests)
			id := i.Id
			if !c.Bool("no-trunc") {
				id, digest = truncated(id, "sha256:"), truncated(digest, "sha256:")
			}
			for _, pair := range repoTags(i.RepoTags, name) {
				row(pair[0], pair[1], digest, id, units.HumanSizeWithPrecision(float64(i.Size), 3), strconv.FormatBool(i.Pinned))
			}
		}
	}
	return tab.w.Flush()
}

func (t *tool) inspectiCommand() *cli.Command {
	return &cli.Command{Name: "inspecti", Usage: "Return the status of one or more images", ArgsUsage: "IMAGE-ID [IMAGE-ID...]", UseShortOptionHandling: true,
		Flags: append(append([]cli.Flag{}, inspectFlags...), &cli.StringFlag{Name: "name", Usage: "Filter by image name"}, &cli.StringSliceFlag{Name: "filter", Aliases: []string{"f"}, Usage: filterUsage}),
		Action: func(c *cli.Context) error {
			i, err := t.images()
			if err != nil {
				return err
			}
			ids := c.Args().Slice()
			if len(ids) == 0 {
				l, err := t.listImages(i, c.String("name"), c.StringSlice("filter"))
				if err != nil {
					return fmt.Errorf("listing images: %w", err)
				}
				for _, m := range l {
					ids = append(ids, m.Id)
				}
			}
			if len(ids) == 0 {
				t.logError("No IDs provided or nothing found per filter")
				return cli.ShowSubcommandHelp(c)
			}
			var out []statusData
			for _, id := range ids {
				res, err := i.ImageStatus(t.ctx, &runtimeapi.ImageSpec{Image: id}, !c.Bool("quiet"))
				if err != nil {
					return fmt.Errorf("image status for %q request: %w", id, err)
				}
				if res.Image == nil {
					return fmt.Errorf("no such image %q present", id)
				}
				if c.String("output") == "table" {
					t.imageTable(res, !c.Bool("quiet"))
					continue
				}
				m, err := statusMap(res.Image, nil)
				if err != nil {
					return fmt.Errorf("marshal status to JSON for %q: %w", id, err)
				}
				out = append(out, statusData{status: m, info: res.Info})
			}
			return t.outputStatus(out, outputFormat(c), c.String("template"))
		}}
}

func (t *tool) imageTable(res *runtimeapi.ImageStatusResponse, verbose bool) {
	t.printf("ID: %s\n", res.Image.Id)
	for _, s := range res.Image.RepoTags {
		t.printf("Tag: %s\n", s)
	}
	for _, s := range res.Image.RepoDigests {
		t.printf("Digest: %s\n", s)
	}
	t.printf("Size: %s\n", units.HumanSizeWithPrecision(float64(res.Image.Size), 3))
	if verbose {
		t.printf("Info: %v\n", res.Info)
	}
}

func (t *tool) pullCommand() *cli.Command {
	return &cli.Command{Name: "pull", Usage: "Pull an image from a registry", ArgsUsage: "NAME[:TAG|@DIGEST]", UseShortOptionHandling: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "creds", Usage: "Use `USERNAME[:PASSWORD]` for accessing the registry"},
			&cli.StringFlag{Name: "auth", Usage: "Use `AUTH_STRING` for accessing the registry. AUTH_STRING is a base64 encoded 'USERNAME[:PASSWORD]'"},
			&cli.StringFlag{Name: "username", Aliases: []string{"u"}, Usage: "Use `USERNAME` for accessing the registry. The password will be requested on the command line"},
			&cli.StringFlag{Name: "pod-config", Usage: "Use `pod-config.[json|yaml]` to override the pull c", TakesFile: true},
			&cli.StringSliceFlag{Name: "annotation", Aliases: []string{"a"}, Usage: "Annotation to be set on the pulled image"},
			&cli.DurationFlag{Name: "pull-timeout", Aliases: []string{"pt"}, Usage: "Maximum time to be used for pulling the image, disabled if set to 0s"},
		},
		Action: func(c *cli.Context) error {
			name := c.Args().First()
			if name == "" {
				return errors.New("image name cannot be empty")
			}
			if c.NArg() > 1 {
				return cli.ShowSubcommandHelp(c)
			}
			i, err := t.images()
			if err != nil {
				return err
			}
			auth, err := t.auth(c)
			if err != nil {
				return err
			}
			annotations, err := parseLabels(c.StringSlice("annotation"))
			if err != nil {
				return err
			}
			ctx, cancel := t.ctx, context.CancelFunc(func() {})
			switch d := c.Duration("pull-timeout"); {
			case d < 0:
				return errors.New("pulling image: timeout should be bigger than 0")
			case d > 0:
				ctx, cancel = context.WithTimeout(t.ctx, d)
			}
			defer cancel()
			ref, err := i.PullImage(ctx, &runtimeapi.ImageSpec{Image: name, Annotations: annotations}, auth, nil)
			if err != nil {
				return fmt.Errorf("pulling image: %w", err)
			}
			t.printf("Image is up to date for %s\n", ref)
			return nil
		}}
}

func (t *tool) auth(c *cli.Context) (*runtimeapi.AuthConfig, error) {
	creds, _ := t.setting(c, "creds")
	auth, _ := t.setting(c, "auth")
	switch {
	case c.String("username") != "":
		if t.p.TTY == nil {
			return nil, errors.New("inappropriate ioctl for device")
		}
		password, err := t.p.TTY.ReadPassword("Enter Password:")
		if err != nil {
			return nil, err
		}
		t.println()
		return &runtimeapi.AuthConfig{Username: c.String("username"), Password: password}, nil
	case creds != "" && auth != "":
		return nil, errors.New("both `--creds` and `--auth` are specified")
	case creds != "":
		user, password, _ := strings.Cut(creds, ":")
		if user == "" {
			return nil, errors.New("username can't be empty")
		}
		return &runtimeapi.AuthConfig{Username: user, Password: password}, nil
	case auth != "":
		return &runtimeapi.AuthConfig{Auth: auth}, nil
	}
	return nil, nil
}

func (t *tool) rmiCommand() *cli.Command {
	return &cli.Command{Name: "rmi", Usage: "Remove one or more images", ArgsUsage: "IMAGE-ID [IMAGE-ID...]", UseShortOptionHandling: true,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "Remove all images"},
			&cli.BoolFlag{Name: "prune", Aliases: []string{"q"}, Usage: "Remove all unused images"},
		},
		Action: func(c *cli.Context) error {
			i, err := t.images()
			if err != nil {
				return err
			}
			ids := c.Args().Slice()
			all, prune := c.Bool("all"), c.Bool("prune")
			if all || prune {
				more, err := t.removable(i, prune)
				if err != nil {
					return err
				}
				if ids = append(ids, more...); len(ids) == 0 {
					t.info("No images to remove")
					return nil
				}
			}
			if len(ids) == 0 {
				return cli.ShowSubcommandHelp(c)
			}
			return each(ids, func(id string) error {
				st, err := i.ImageStatus(t.ctx, &runtimeapi.ImageSpec{Image: id}, false)
				if err != nil {
					return fmt.Errorf("image status request for %q failed: %w", id, err)
				}
				if st.Image == nil {
					return fmt.Errorf("no such image %s", id)
				}
				if err := i.RemoveImage(t.ctx, &runtimeapi.ImageSpec{Image: id}); err != nil && !prune {
					return fmt.Errorf("error of removing image %q: %w", id, err)
				}
				names := st.Image.RepoTags
				if len(names) == 0 {
					names = st.Image.RepoDigests
				}
				for _, n := range names {
					t.printf("Deleted: %s\n", n)
				}
				return nil
			})
		}}
}

// removable lists all images, or for a prune those that are not pinned and that no container uses.
func (t *tool) removable(i *runtime.ImageClient, prune bool) (ids []string, err error) {
	l, err := i.ListImages(t.ctx, nil)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	if prune {
		r, err := t.runtime()
		if err != nil {
			return nil, err
		}
		containers, err := r.ListContainers(t.ctx, nil)
		if err != nil {
			return nil, err
		}
		for _, k := range containers {
			st, err := i.ImageStatus(t.ctx, &runtimeapi.ImageSpec{Image: k.GetImage().GetImage()}, false)
			if err != nil {
				t.logError("image status request for %q failed: %v", k.GetImage().GetImage(), err)
				continue
			}
			used[st.GetImage().GetId()] = true
		}
	}
	for _, m := range l {
		if !prune || !m.Pinned && !used[m.Id] {
			ids = append(ids, m.Id)
		}
	}
	return ids, nil
}

func (t *tool) imagefsinfoCommand() *cli.Command {
	return &cli.Command{Name: "imagefsinfo", Usage: "Return image filesystem info", UseShortOptionHandling: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "Output format, One of: json|yaml|go-template|table"},
			&cli.StringFlag{Name: "template", Usage: "The template string is only used when output is go-template; The Template format is golang template"},
		},
		Action: func(c *cli.Context) error {
			i, err := t.images()
			if err != nil {
				return err
			}
			res, err := i.ImageFsInfo(t.ctx)
			if err != nil {
				return fmt.Errorf("image filesystem info request: %w", err)
			}
			if c.String("output") == "table" {
				for _, f := range []struct {
					label string
					l     []*runtimeapi.FilesystemUsage
				}{{"Container", res.ContainerFilesystems}, {"Image", res.ImageFilesystems}} {
					t.printf("%s Filesystem \n", f.label)
					for n, v := range f.l {
						t.printf("TimeStamp[%d]: %d\nDisk[%d]: %s\nInodes[%d]: %d\nMountpoint[%d]: %s\n", n, v.Timestamp, n, units.HumanSize(float64(v.UsedBytes.GetValue())), n, v.InodesUsed.GetValue(), n, v.FsId.GetMountpoint())
					}
				}
				return nil
			}
			m, err := statusMap(res, nil)
			if err != nil {
				return fmt.Errorf("marshal filesystem info to json: %w", err)
			}
			return t.outputStatus([]statusData{{status: m}}, outputFormat(c), c.String("template"))
		}}
}
