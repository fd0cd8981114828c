package kubectl

import (
	"fmt"
	"maps"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/cmd/util/podcmd"
	"k8s.io/kubectl/pkg/polymorphichelpers"
	"k8s.io/kubectl/pkg/util/podutils"

	"ckadrill/sim/kernel"
)

// wrapLogs has "kubectl logs" tell its own process which Pod and container it chose: upstream writes that to the standard
// error of the host process. The choice itself is upstream's, made once more.
func wrapLogs() {
	upstream := polymorphichelpers.LogsForObjectFn
	polymorphichelpers.LogsForObjectFn = func(g genericclioptions.RESTClientGetter, object, options runtime.Object, timeout time.Duration, allContainers bool) (map[corev1.ObjectReference]rest.ResponseWrapper, error) {
		p := kernel.Current()
		opts, ok := options.(*corev1.PodLogOptions)
		if p == nil || !ok || allContainers {
			return upstream(g, object, options, timeout, allContainers)
		}
		pod, isPod := object.(*corev1.Pod)
		list, isList := object.(*corev1.PodList)
		if isList && opts.Container == "" {
			return logsOfList(p, upstream, g, list, opts, timeout)
		}
		if !isPod && !isList {
			chosen, err := choosePod(p, g, object, timeout)
			if err != nil {
				return nil, err
			}
			pod, isPod, object = chosen, true, chosen
		}
		if isPod && opts.Container == "" && len(pod.Spec.Containers) > 0 {
			o := opts.DeepCopy()
			o.Container = chooseContainer(p, pod)
			options = o
		}
		return upstream(g, object, options, timeout, allContainers)
	}
}

// logsOfList asks for the logs of each Pod's default container, as upstream does for the Pods of a selector.
func logsOfList(p *kernel.Process, upstream polymorphichelpers.LogsForObjectFunc, g genericclioptions.RESTClientGetter, list *corev1.PodList, opts *corev1.PodLogOptions, timeout time.Duration) (map[corev1.ObjectReference]rest.ResponseWrapper, error) {
	all := map[corev1.ObjectReference]rest.ResponseWrapper{}
	for n := range list.Items {
		pod, o := &list.Items[n], opts.DeepCopy()
		if len(pod.Spec.Containers) > 0 {
			o.Container = chooseContainer(p, pod)
		}
		m, err := upstream(g, pod, o, timeout, false)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, m)
	}
	return all, nil
}

// choosePod picks the Pod of a controller or Service.
func choosePod(p *kernel.Process, g genericclioptions.RESTClientGetter, object runtime.Object, timeout time.Duration) (*corev1.Pod, error) {
	c, err := g.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	client, err := corev1client.NewForConfig(c)
	if err != nil {
		return nil, err
	}
	namespace, selector, err := polymorphichelpers.SelectorsForObject(object)
	if err != nil {
		return nil, fmt.Errorf("cannot get the logs from %T: %v", object, err)
	}
	pod, n, err := polymorphichelpers.GetFirstPod(client, namespace, selector.String(), timeout, func(pods []*corev1.Pod) sort.Interface { return podutils.ByLogging(pods) })
	if err != nil {
		return nil, err
	}
	if n > 1 {
		fmt.Fprintf(stderrOf(p), "Found %v pods, using pod/%v\n", n, pod.Name)
	}
	return pod, nil
}

// chooseContainer picks the Pod's default container.
func chooseContainer(p *kernel.Process, pod *corev1.Pod) string {
	if d := pod.Annotations[podcmd.DefaultContainerAnnotationName]; d != "" {
		if c, _ := podcmd.FindContainerByName(pod, d); c != nil {
			return d
		}
		fmt.Fprintf(stderrOf(p), "Default container name %q not found in pod %s\n", d, pod.Name)
	}
	name := pod.Spec.Containers[0].Name
	if len(pod.Spec.Containers) > 1 || len(pod.Spec.InitContainers) > 0 || len(pod.Spec.EphemeralContainers) > 0 {
		fmt.Fprintf(stderrOf(p), "Defaulted container %q out of: %s\n", name, podcmd.AllContainerNames(pod))
	}
	return name
}
