// Package localpath is local-path-provisioner as a program: upstream's controller for external provisioners
// (sig-storage-lib-external-provisioner) over the volumes that rancher/local-path-provisioner makes. A volume is a directory
// of a node, which a helper Pod on that node makes and removes by the scripts of the provisioner's ConfigMap.
package localpath

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"strings"
	"time"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
	"sigs.k8s.io/yaml"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network/apiclient"
)

// Register adds the program.
func Register(w *kernel.World) { w.Programs.Register("local-path-provisioner", run) }

// defaultName is the provisioner's name without --provisioner-name.
const defaultName = "rancher.io/local-path"

// Names that the manifest and the provisioner share (main.go and provisioner.go of v0.0.32).
const (
	helperScriptDir = "/script"
	helperDataVol   = "data"
	helperScriptVol = "script"
	anyNode         = "DEFAULT_PATH_FOR_NON_LISTED_NODES"
	hostnameKey     = "kubernetes.io/hostname"
)

// cmdTimeout is how long a helper Pod may take by default, in seconds.
const cmdTimeout = 120

// configuration is config.json of the ConfigMap.
type configuration struct {
	NodePathMap []struct {
		Node  string   `json:"node"`
		Paths []string `json:"paths"`
	} `json:"nodePathMap"`
	CmdTimeoutSeconds    int    `json:"cmdTimeoutSeconds,omitempty"`
	SharedFileSystemPath string `json:"sharedFileSystemPath,omitempty"`
}

type provisioner struct {
	p         *kernel.Process
	client    kubernetes.Interface
	namespace string
	configMap string
	config    configuration
	helper    v1.Pod
}

// run is upstream's main: "local-path-provisioner --debug start --config /etc/config/config.json".
func run(p *kernel.Process) int {
	config, name, started := "", defaultName, false
	args := p.Argv[1:]
	for i := 0; i < len(args); i++ {
		flag, value, ok := strings.Cut(args[i], "=")
		next := func() string {
			if !ok && i+1 < len(args) {
				i++
				value = args[i]
			}
			return value
		}
		switch flag {
		case "--debug":
		case "start":
			started = true
		case "--config":
			config = next()
		case "--provisioner-name":
			name = next()
		default:
			return fatal(p, fmt.Errorf("ckadrill does not simulate local-path-provisioner's %s yet", flag))
		}
	}
	if !started {
		p.Printf("NAME:\n   local-path-provisioner - A new cli application\n\nCOMMANDS:\n   start    \n   help, h  Shows a list of commands or help for one command\n")
		return 0
	}
	s := &provisioner{p: p, namespace: p.Getenv("POD_NAMESPACE"), configMap: "local-path-config"}
	if s.namespace == "" {
		s.namespace = "local-path-storage"
	}
	if err := s.load(config); err != nil {
		return fatal(p, fmt.Errorf("Error starting daemon: %w", err))
	}
	rest, err := apiclient.InCluster(p)
	if err != nil {
		return fatal(p, fmt.Errorf("Error starting daemon: unable to get k8s client: %w", err))
	}
	if s.client, err = kubernetes.NewForConfig(rest); err != nil {
		return fatal(p, fmt.Errorf("Error starting daemon: %w", err))
	}
	ctx := klog.NewContext(p.Context(), klog.Background())
	c := controller.NewProvisionController(ctx, s.client, name, s,
		controller.LeaderElection(false), controller.FailedProvisionThreshold(15), controller.FailedDeleteThreshold(15))
	s.nameItself(c, name)
	p.Errorf("time=%q level=debug msg=\"Provisioner started\"\n", time.Now().Format(time.RFC3339))
	c.Run(ctx)
	return 0
}

// nameItself gives the controller and its events the name of the Pod. Upstream takes that of the host, in fields that it does
// not export.
func (s *provisioner) nameItself(c *controller.ProvisionController, name string) {
	component := name + "_" + s.p.HostName() + "_" + string(uuid.NewUUID())
	of := reflect.ValueOf(c).Elem()
	recorder := reflect.Indirect(of.FieldByName("eventRecorder").Elem()).FieldByName("recorderImpl").Elem()
	for _, f := range []reflect.Value{of.FieldByName("component"), recorder.FieldByName("source").FieldByName("Component")} {
		reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().SetString(component)
	}
}

func fatal(p *kernel.Process, err error) int {
	p.Errorf("time=%q level=fatal msg=%q\n", time.Now().Format(time.RFC3339), err)
	return 1
}

// load reads the configuration and the helper's template, which lies beside it.
func (s *provisioner) load(name string) error {
	b, err := s.p.ReadFile(name)
	if err != nil {
		return fmt.Errorf("invalid empty flag config: %w", err)
	}
	if err := json.Unmarshal(b, &s.config); err != nil {
		return fmt.Errorf("fail to load config file %s: %w", name, err)
	}
	if s.config.CmdTimeoutSeconds == 0 {
		s.config.CmdTimeoutSeconds = cmdTimeout
	}
	if s.config.SharedFileSystemPath != "" {
		return fmt.Errorf("ckadrill does not simulate sharedFileSystemPath yet")
	}
	if b, err = s.p.ReadFile(path.Join(path.Dir(name), "helperPod.yaml")); err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(b, &s.helper); err != nil {
		return fmt.Errorf("invalid unmarshal the helper pod with helperPod.yaml: %w", err)
	}
	if len(s.helper.Spec.Containers) == 0 {
		return fmt.Errorf("helper pod template does not specify any container")
	}
	return nil
}

// directory is where a node keeps volumes.
func (s *provisioner) directory(node string) (string, error) {
	paths, found := []string(nil), false
	for _, n := range s.config.NodePathMap {
		if n.Node == node || n.Node == anyNode && !found {
			paths, found = n.Paths, true
			if n.Node == node {
				break
			}
		}
	}
	if !found {
		return "", fmt.Errorf("config doesn't contain node %v, and no %v available", node, anyNode)
	}
	if len(paths) == 0 {
		return "", fmt.Errorf("no local path available on node %v", node)
	}
	return paths[0], nil
}

// Provision implements controller.Provisioner.
func (s *provisioner) Provision(ctx context.Context, o controller.ProvisionOptions) (*v1.PersistentVolume, controller.ProvisioningState, error) {
	pvc := o.PVC
	if pvc.Spec.Selector != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("claim.Spec.Selector is not supported")
	}
	for _, m := range pvc.Spec.AccessModes {
		if m != v1.ReadWriteOnce && m != v1.ReadWriteOncePod {
			return nil, controller.ProvisioningFinished, fmt.Errorf("NodePath only supports ReadWriteOnce and ReadWriteOncePod (1.22+) access modes")
		}
	}
	if o.SelectedNodeName == "" {
		return nil, controller.ProvisioningFinished, fmt.Errorf("configuration error, no node was specified")
	}
	node, err := s.client.CoreV1().Nodes().Get(ctx, o.SelectedNodeName, metav1.GetOptions{})
	if err != nil {
		return nil, controller.ProvisioningNoChange, err
	}
	base, err := s.directory(node.Name)
	if err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	dir := path.Join(base, o.PVName+"_"+pvc.Namespace+"_"+pvc.Name)
	size := pvc.Spec.Resources.Requests[v1.ResourceStorage]
	if err := s.runHelper(ctx, "create", "setup", o.PVName, dir, node.Name, size.Value()); err != nil {
		return nil, controller.ProvisioningFinished, err
	}
	source := v1.PersistentVolumeSource{}
	kind := o.StorageClass.Annotations["defaultVolumeType"]
	if k := pvc.Annotations["volumeType"]; k != "" {
		kind = k
	}
	switch strings.ToLower(kind) {
	case "", "hostpath":
		t := v1.HostPathDirectoryOrCreate
		source.HostPath = &v1.HostPathVolumeSource{Path: dir, Type: &t}
	case "local":
		source.Local = &v1.LocalVolumeSource{Path: dir}
	default:
		return nil, controller.ProvisioningFinished, fmt.Errorf("\"%s\" is not a recognised volume type", kind)
	}
	host := node.Labels[hostnameKey]
	if host == "" {
		host = node.Name
	}
	mode := v1.PersistentVolumeFilesystem
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: o.PVName, Annotations: map[string]string{"local.path.provisioner/selected-node": node.Name}},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *o.StorageClass.ReclaimPolicy,
			AccessModes:                   pvc.Spec.AccessModes,
			VolumeMode:                    &mode,
			Capacity:                      v1.ResourceList{v1.ResourceStorage: size},
			PersistentVolumeSource:        source,
			MountOptions:                  o.StorageClass.MountOptions,
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: hostnameKey, Operator: v1.NodeSelectorOpIn, Values: []string{host}}}}}}},
		},
	}, controller.ProvisioningFinished, nil
}

// Delete implements controller.Provisioner.
func (s *provisioner) Delete(ctx context.Context, pv *v1.PersistentVolume) error {
	dir := ""
	switch {
	case pv.Spec.HostPath != nil:
		dir = pv.Spec.HostPath.Path
	case pv.Spec.Local != nil:
		dir = pv.Spec.Local.Path
	default:
		return fmt.Errorf("failed to delete volume %v: no path set", pv.Name)
	}
	if pv.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimRetain {
		return nil
	}
	node := pv.Annotations["local.path.provisioner/selected-node"]
	if node == "" {
		node = hostOf(pv)
	}
	if _, err := s.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return nil // with the node its volumes are gone
	}
	size := pv.Spec.Capacity[v1.ResourceStorage]
	if err := s.runHelper(ctx, "delete", "teardown", pv.Name, dir, node, size.Value()); err != nil {
		return fmt.Errorf("failed to delete volume %v: %w", pv.Name, err)
	}
	return nil
}

// hostOf is the node that a volume's affinity names.
func hostOf(pv *v1.PersistentVolume) string {
	if a := pv.Spec.NodeAffinity; a != nil && a.Required != nil {
		for _, t := range a.Required.NodeSelectorTerms {
			for _, e := range t.MatchExpressions {
				if e.Key == hostnameKey && e.Operator == v1.NodeSelectorOpIn && len(e.Values) == 1 {
					return e.Values[0]
				}
			}
		}
	}
	return ""
}

// runHelper has a Pod on the node run a script of the ConfigMap, and waits for it (createHelperPod).
func (s *provisioner) runHelper(ctx context.Context, action, script, pv, dir, node string, size int64) (err error) {
	pod := s.helper.DeepCopy()
	pod.Name, pod.Namespace = "helper-pod-"+action+"-"+pv, s.namespace
	if len(pod.Name) > 128 {
		pod.Name = pod.Name[:128]
	}
	parent, _ := path.Split(dir)
	typ := v1.HostPathDirectoryOrCreate
	pod.Spec.Volumes = append(pod.Spec.Volumes,
		v1.Volume{Name: helperDataVol, VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path.Clean(parent), Type: &typ}}},
		v1.Volume{Name: helperScriptVol, VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: s.configMap},
			Items: []v1.KeyToPath{{Key: "setup", Path: "setup"}, {Key: "teardown", Path: "teardown"}}}}})
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: helperScriptVol, MountPath: helperScriptDir}, v1.VolumeMount{Name: helperDataVol, MountPath: path.Clean(parent)})
	c.Env = append(c.Env, v1.EnvVar{Name: "VOL_DIR", Value: dir}, v1.EnvVar{Name: "VOL_MODE", Value: string(v1.PersistentVolumeFilesystem)}, v1.EnvVar{Name: "VOL_SIZE_BYTES", Value: fmt.Sprint(size)})
	c.Command = []string{"/bin/sh", path.Join(helperScriptDir, script)}
	c.Args = []string{"-p", dir, "-s", fmt.Sprint(size), "-m", string(v1.PersistentVolumeFilesystem), "-a", action}
	pod.Spec.ServiceAccountName = "local-path-provisioner-service-account"
	pod.Spec.RestartPolicy = v1.RestartPolicyNever
	pod.Spec.NodeName = node
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{Operator: v1.TolerationOpExists})

	pods := s.client.CoreV1().Pods(s.namespace)
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	defer func() {
		if e := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{}); e != nil && !apierrors.IsNotFound(e) {
			klog.FromContext(ctx).Error(e, "unable to delete the helper pod")
		}
	}()
	for range s.config.CmdTimeoutSeconds {
		p, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if p.Status.Phase == v1.PodSucceeded {
			return nil
		}
		if err := s.p.Sleep(time.Second); err != nil {
			return err
		}
	}
	return fmt.Errorf("create process timeout after %v seconds", s.config.CmdTimeoutSeconds)
}
