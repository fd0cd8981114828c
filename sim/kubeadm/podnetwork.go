package kubeadm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/kubectl/pkg/util"

	"ckadrill/sim/packages"
)

// flannelNetwork is the Pod network that the manifest names; who has another one edits it.
const flannelNetwork = `"Network": "10.244.0.0/16"`

// flannelManifest is flannel's manifest for a Pod network.
func flannelManifest(podCIDR netip.Prefix) []byte {
	return bytes.Replace(packages.Flannel, []byte(flannelNetwork), []byte(fmt.Sprintf(`"Network": %q`, podCIDR)), 1)
}

// decode splits a manifest into its objects.
func decode(manifest []byte) (l []*unstructured.Unstructured, err error) {
	r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			return l, nil
		}
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		if err := utilyaml.Unmarshal(doc, &o.Object); err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			l = append(l, o)
		}
	}
}

// apply creates the objects of a manifest as "kubectl apply -f" does when they do not exist: with the annotation that the
// next apply compares with. What exists already stays as it is.
func apply(ctx context.Context, client dynamic.Interface, manifest []byte) error {
	objects, err := decode(manifest)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := util.CreateApplyAnnotation(o, unstructured.UnstructuredJSONScheme); err != nil {
			return err
		}
		resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind()) // right for every kind of the embedded manifests
		var to dynamic.ResourceInterface = client.Resource(resource)
		if ns := o.GetNamespace(); ns != "" {
			to = client.Resource(resource).Namespace(ns)
		}
		_, err := to.Create(ctx, o, metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}
