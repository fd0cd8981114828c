package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"ckadrill/sim/kernel"
	"ckadrill/sim/runtime/registry"
)

// split sorts an image's references into tags and digests.
func (i *image) split() (tags, digests []string) {
	for _, r := range i.References {
		if strings.Contains(r, "@") {
			digests = append(digests, r)
		} else {
			tags = append(tags, r)
		}
	}
	return tags, digests
}

// AddImage makes an image of the registries present without a pull, as when a machine's disk is prepared. The name may be
// short ("nginx:1.27"). It panics when no registry holds the image.
func (c *Containerd) AddImage(name string) {
	ref, err := registry.Parse(name)
	if err != nil {
		panic(err)
	}
	def := c.options.Registries.Find(ref)
	if def == nil {
		panic("runtime: no registry holds " + ref.String())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.store(def, ref)
}

// HasImage says whether an image of that name is present.
func (c *Containerd) HasImage(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resolveImage(name) != nil
}

// store notes that an image is present under a reference, which moves there from any other image. The lock is held.
func (c *Containerd) store(def *registry.Image, ref registry.Reference) *image {
	id := def.ID()
	names := []string{ref.Repository + "@" + def.Digest()}
	if ref.Digest == "" {
		names = append(names, ref.String())
	}
	for _, o := range c.images {
		if o.ID != id {
			before := len(o.References)
			o.References = slices.DeleteFunc(o.References, func(r string) bool { return slices.Contains(names, r) })
			if len(o.References) != before {
				o.version = c.w.Version()
			}
		}
	}
	i := c.images[id]
	if i == nil {
		i = &image{ID: id}
		c.images[id] = i
	}
	for _, n := range names {
		if !slices.Contains(i.References, n) {
			i.References = append(i.References, n)
		}
	}
	sort.Strings(i.References)
	i.Pinned = strings.HasPrefix(ref.Repository, "registry.k8s.io/pause")
	i.version = c.w.Version()
	return i
}

// resolveImage finds a present image by its id (or an unambiguous beginning of it) or by a name. The lock is held.
func (c *Containerd) resolveImage(name string) *image {
	if i := c.images[name]; i != nil {
		return i
	}
	if !strings.Contains(name, ":") {
		if i := c.images["sha256:"+name]; i != nil {
			return i
		}
	}
	if ref, err := registry.Parse(name); err == nil {
		full := ref.String()
		for _, i := range c.images {
			if slices.Contains(i.References, full) {
				return i
			}
		}
	}
	if hex := strings.TrimPrefix(name, "sha256:"); len(hex) > 0 && strings.Trim(hex, "0123456789abcdef") == "" {
		var found *image
		for id, i := range c.images {
			if strings.HasPrefix(id, "sha256:"+hex) {
				if found != nil {
					return nil
				}
				found = i
			}
		}
		return found
	}
	return nil
}

func (c *Containerd) criImage(i *image) *runtimeapi.Image {
	def := c.options.Registries.ByID(i.ID)
	tags, digests := i.split()
	m := &runtimeapi.Image{Id: i.ID, RepoTags: tags, RepoDigests: digests, Pinned: i.Pinned}
	if def != nil {
		m.Size = uint64(def.Size)
		user, _, _ := strings.Cut(def.Config.User, ":")
		if uid, err := strconv.ParseInt(user, 10, 64); err == nil {
			m.Uid = &runtimeapi.Int64Value{Value: uid}
		} else {
			m.Username = user
		}
	}
	return m
}

// ListImages implements the CRI.
func (s *service) ListImages(_ context.Context, r *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	res := &runtimeapi.ListImagesResponse{}
	if f := r.GetFilter().GetImage().GetImage(); f != "" {
		if i := s.resolveImage(f); i != nil {
			res.Images = append(res.Images, s.criImage(i))
		}
		return res, nil
	}
	for _, i := range s.images {
		res.Images = append(res.Images, s.criImage(i))
	}
	sort.Slice(res.Images, func(i, j int) bool { return res.Images[i].Id < res.Images[j].Id })
	return res, nil
}

// ImageStatus implements the CRI: an image that is not present is no error.
func (s *service) ImageStatus(_ context.Context, r *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.resolveImage(r.GetImage().GetImage())
	if i == nil {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	res := &runtimeapi.ImageStatusResponse{Image: s.criImage(i)}
	if def := s.options.Registries.ByID(i.ID); r.Verbose && def != nil {
		b, err := json.Marshal(struct {
			ChainID   string          `json:"chainID"`
			ImageSpec json.RawMessage `json:"imageSpec"`
		}{def.ChainID(), def.Spec()})
		if err != nil {
			return nil, fmt.Errorf("failed to generate image info: %w", err)
		}
		res.Info = map[string]string{"info": string(b)}
	}
	return res, nil
}

func (s *service) removeImage(_ context.Context, r *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.resolveImage(r.GetImage().GetImage()); i != nil {
		delete(s.images, i.ID)
	}
	return &runtimeapi.RemoveImageResponse{}, nil
}

// ImageFsInfo implements the CRI.
func (s *service) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	s.mu.Lock()
	var used uint64
	for id := range s.images {
		if def := s.options.Registries.ByID(id); def != nil {
			used += unpackedSize(def)
		}
	}
	mountpoint := s.snapshots()
	s.mu.Unlock()
	fs := []*runtimeapi.FilesystemUsage{{
		Timestamp: time.Now().UnixNano(), FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: mountpoint},
		UsedBytes: &runtimeapi.UInt64Value{Value: used}, InodesUsed: &runtimeapi.UInt64Value{Value: used / 20000},
	}}
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: fs, ContainerFilesystems: fs}, nil
}

// unpackedSize is what an image takes on disk, about two and a half times its compressed layers.
func unpackedSize(i *registry.Image) uint64 { return uint64(i.Size) * 5 / 2 }

func (s *service) pullImage(ctx context.Context, r *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	id, err := s.pull(ctx, r.GetImage().GetImage())
	if err != nil {
		return nil, err
	}
	return &runtimeapi.PullImageResponse{ImageRef: id}, nil
}

func (s *service) pull(ctx context.Context, name string) (string, error) {
	start := time.Now()
	ref, err := registry.Parse(name)
	if err != nil {
		return "", err
	}
	fail := func(err error) error {
		return fmt.Errorf("failed to pull and unpack image %q: failed to resolve image: %w", ref, err)
	}
	def, err := s.resolveRemote(ctx, ref)
	if err != nil {
		return "", fail(err)
	}
	s.mu.Lock()
	present := s.images[def.ID()] != nil
	s.mu.Unlock()
	if !present {
		d := time.Duration(float64(def.Size) / pullRate * float64(time.Second))
		if err := kernel.SleepContext(ctx, d); err != nil {
			return "", fmt.Errorf("failed to pull and unpack image %q: %w", ref, err)
		}
	}
	s.mu.Lock()
	i := s.store(def, ref)
	s.mu.Unlock()
	tag := ""
	if ref.Digest == "" {
		tag = ref.String()
	}
	s.d.log.infof("Pulled image %q with image id %q, repo tag %q, repo digest %q, size %q in %s", name, i.ID, tag, ref.Repository+"@"+def.Digest(), strconv.FormatInt(def.Size, 10), time.Since(start))
	s.w.Trace.Add(kernel.Step{Verb: "pull", Subject: "image/" + ref.String(), Detail: i.ID})
	return i.ID, nil
}

// resolveRemote asks the registry, over the network as the machine sees it, what a reference is.
func (s *service) resolveRemote(ctx context.Context, ref registry.Reference) (*registry.Image, error) {
	if err := s.reachRegistry(ctx, ref); err != nil {
		return nil, err
	}
	if err := kernel.SleepContext(ctx, pullLatency); err != nil {
		return nil, err
	}
	if def := s.options.Registries.Find(ref); def != nil {
		return def, nil
	}
	if registry.Host(ref.Repository) == "docker.io" && !s.options.Registries.HasRepository(ref.Repository) {
		return nil, errors.New("pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed")
	}
	return nil, fmt.Errorf("%s: %w", ref, errdefs.ErrNotFound)
}

// sandboxImage is the image of the pause process, pulled if it is not present.
func (s *service) sandboxImage(ctx context.Context) (*registry.Image, error) {
	name := s.d.config.SandboxImage
	s.mu.Lock()
	i := s.resolveImage(name)
	s.mu.Unlock()
	if i == nil {
		id, err := s.pull(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("failed to get sandbox image %q: failed to pull image %q: %w", name, name, err)
		}
		return s.options.Registries.ByID(id), nil
	}
	return s.options.Registries.ByID(i.ID), nil
}
