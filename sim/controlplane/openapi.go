package controlplane

import (
	"bytes"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/emicklei/go-restful/v3"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/common/restfuladapter"
	"k8s.io/kube-openapi/pkg/handler3"
)

// installLazyOpenAPI serves the OpenAPI documents of the built-in APIs under the server's usual paths, but builds them
// when they are asked for: version 2 as a whole, version 3 by group and version. Built at the start, as upstream does, they
// are more than half of it, and a third of its memory.
func installLazyOpenAPI(s *server.GenericAPIServer, v2 *common.Config, v3 *common.OpenAPIV3Config) {
	m := s.Handler.NonGoRestfulMux
	var once sync.Once
	inner := mux.NewPathRecorderMux("openapi")
	m.Handle("/openapi/v2", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() {
			s.OpenAPIVersionedService, s.StaticOpenAPISpec = routes.OpenAPI{Config: v2}.InstallV2(s.Handler.GoRestfulContainer, inner)
		})
		inner.ServeHTTP(w, r)
	}))
	l := &lazyOpenAPI{config: v3, server: s, built: map[string]*handler3.OpenAPIService{}}
	m.Handle("/openapi/v3", http.HandlerFunc(l.discovery))
	m.HandlePrefix("/openapi/v3/", http.HandlerFunc(l.groupVersion))
}

// lazyOpenAPI is OpenAPI version 3 of the server's web services, one document for each.
type lazyOpenAPI struct {
	server *server.GenericAPIServer
	config *common.OpenAPIV3Config
	mu     sync.Mutex
	built  map[string]*handler3.OpenAPIService
	root   []byte
	etag   string
}

// hash stands for a document's contents, which only another version of the apiserver changes, without building it.
func (l *lazyOpenAPI) hash(gv string) string {
	return fmt.Sprintf("%X", sha512.Sum512([]byte(l.config.Info.Version+l.server.EffectiveVersion.String()+gv)))
}

// discovery answers the aggregator, which asks once a second: the list of the built-in APIs is made once.
func (l *lazyOpenAPI) discovery(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	if l.root == nil {
		d := handler3.OpenAPIV3Discovery{Paths: map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}}
		for _, ws := range l.server.Handler.GoRestfulContainer.RegisteredWebServices() {
			gv := strings.TrimPrefix(ws.RootPath(), "/")
			u := url.URL{Path: "/openapi/v3/" + gv, RawQuery: url.Values{"hash": {l.hash(gv)}}.Encode()}
			d.Paths[gv] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: u.String()}
		}
		l.root, _ = json.Marshal(d)
		l.etag = fmt.Sprintf("%X", sha512.Sum512(l.root))
	}
	root, etag := l.root, l.etag
	l.mu.Unlock()
	w.Header().Set("Etag", strconv.Quote(etag))
	w.Header().Set("Content-Type", "application/json")
	http.ServeContent(w, r, "/openapi/v3", time.Time{}, bytes.NewReader(root))
}

func (l *lazyOpenAPI) groupVersion(w http.ResponseWriter, r *http.Request) {
	gv := strings.TrimPrefix(r.URL.Path, "/openapi/v3/")
	s, err := l.build(gv)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	case s == nil:
		http.NotFound(w, r)
		return
	}
	req := r
	if h := r.URL.Query().Get("hash"); h != "" {
		if h != l.hash(gv) {
			u := url.URL{Path: r.URL.Path, RawQuery: url.Values{"hash": {l.hash(gv)}}.Encode()}
			http.Redirect(w, r, u.String(), http.StatusMovedPermanently)
			return
		}
		req = r.Clone(r.Context())
		req.URL.RawQuery = ""
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).Format(time.RFC1123))
	}
	s.HandleGroupVersion(w, req)
}

func (l *lazyOpenAPI) build(gv string) (*handler3.OpenAPIService, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.built[gv]; s != nil {
		return s, nil
	}
	for _, ws := range l.server.Handler.GoRestfulContainer.RegisteredWebServices() {
		if strings.TrimPrefix(ws.RootPath(), "/") != gv {
			continue
		}
		spec, err := builder3.BuildOpenAPISpecFromRoutes(restfuladapter.AdaptWebServices([]*restful.WebService{ws}), l.config)
		if err != nil {
			return nil, fmt.Errorf("failed to build OpenAPI v3 for group %s, %q", gv, err)
		}
		s := handler3.NewOpenAPIService()
		s.UpdateGroupVersion(gv, spec)
		l.built[gv] = s
		return s, nil
	}
	return nil, nil
}
