package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"ckadrill/sim/kernel"
)

// Nothing that runs in a world can read, write or run anything of the host. The test puts canaries where a leak would lead: a
// file with a secret, and programs that leave a mark, on PATH and in the variables that name editors, pagers and plugins.

const secret = "canary-of-the-host"

// escapes are scripts; HOST stands for the directory with the canaries.
var escapes = []string{
	// files by name
	`cat HOST/secret; head HOST/secret; wc HOST/secret; base64 HOST/secret; sort HOST/secret; grep . HOST/secret; stat HOST/secret; ls -l HOST`,
	`cp HOST/secret .; mv HOST/secret .; ln -s HOST/secret link; cat link; ln HOST/secret hard; rm -rf HOST; cat ../../../../../..HOST/secret`,
	`cd HOST; pwd; find HOST -type f; find / -name secret; tar cf - HOST | tar tf -; source HOST/secret; . HOST/secret; exec 3< HOST/secret; cat <&3`,
	`echo x > HOST/written; echo x >> HOST/secret; tee HOST/written < /dev/null; dd if=/dev/zero of=HOST/written count=1; touch HOST/written; mkdir HOST/made; truncate -s 0 HOST/secret`,
	`sudo sh -c 'mkdir -p HOST; echo mine > HOST/secret; cat HOST/secret; rm -rf HOST'`,
	`awk 'BEGIN { while ((getline l < "HOST/secret") > 0) print l; print "x" > "HOST/written"; system("HOST/mark"); "HOST/mark" | getline; print "x" | "HOST/mark" }'`,
	`sed -n 'r HOST/secret' /etc/hostname; sed 'w HOST/written' /etc/hostname; sed '1e HOST/mark' /etc/hostname; sed 's/.*/HOST\/mark/e' /etc/hostname; sed -i s/c/x/ HOST/secret`,
	`jq -n 'input_filename, env, $ENV' ; jq -f HOST/secret .; jq -n --rawfile x HOST/secret '$x'; jq -n 'import "HOST/secret" as x; 1'`,
	`find /etc/hostname -exec HOST/mark {} \;; echo HOST/mark | xargs -I{} {} ; env HOST/mark; HOST/mark; PATH=HOST:$PATH mark; timeout 1 HOST/mark; nohup HOST/mark; sudo HOST/mark; watch -n1 -g HOST/mark </dev/null & sleep 2; kill %1`,
	`echo HOST/mark > x; chmod +x x; ./x; printf '#!HOST/mark\n' > x; ./x; bash HOST/mark; sh -c HOST/mark; vim -es -c ':!HOST/mark' -c ':q' x </dev/null`,
	`cat < /dev/tcp/127.0.0.1/22; exec 3<>/dev/tcp/127.0.0.1/80; curl -sm 2 file://HOST/secret; curl -sm 2 http://127.0.0.1:8080; curl -o HOST/written http://127.0.0.1; nc -w 1 127.0.0.1 22 </dev/null`,
	`cat /proc/self/environ | tr '\0' '\n'; cat /proc/self/cmdline /proc/1/environ; ls /proc/self/fd /proc/self/root/; cat /proc/self/cwd/../../HOST/secret /proc/1/root/HOST/secret; env; printenv HOME KUBECONFIG EDITOR`,
	`printf 'x' > f; tar cPf a.tar f --transform 's,f,HOST/written,'; tar xPf a.tar; gzip -c HOST/secret; zip a.zip HOST/secret; unzip -o a.zip -d HOST; tar xf a.tar -C HOST`,
	// kubectl
	`kubectl apply -f HOST/pod.yaml; kubectl create -f HOST; kubectl apply -k HOST; kubectl kustomize HOST; kubectl create cm x --from-file=HOST/secret; kubectl get cm x -o yaml; kubectl create secret generic x --from-file=HOST; kubectl diff -f HOST/pod.yaml`,
	`kubectl --kubeconfig HOST/config get pods; KUBECONFIG=HOST/config kubectl config view --raw; kubectl config set-context x --kubeconfig=HOST/written; kubectl config set-credentials x --client-key=HOST/secret --embed-certs; kubectl config set-cluster x --certificate-authority=HOST/secret --embed-certs; kubectl config view --raw | base64 -d 2>/dev/null | grep -a canary`,
	`kubectl --certificate-authority=HOST/secret get pods; kubectl --token=x --server=https://127.0.0.1:6443 --insecure-skip-tls-verify get pods; kubectl --cache-dir=HOST/cache get pods; kubectl --profile=cpu --profile-output=HOST/profile get pods`,
	`mkdir -p k/x; printf 'resources: [HOST/pod.yaml, ../../../../../../HOST/pod.yaml]\n' > k/kustomization.yaml; kubectl kustomize k; kubectl kustomize --load-restrictor LoadRestrictionsNone k; printf 'resources: ["https://github.com/x/y?ref=main"]\n' > k/kustomization.yaml; kubectl kustomize k; kubectl kustomize https://github.com/x/y; kubectl apply -k github.com/x/y; printf 'configMapGenerator: [{name: x, files: [HOST/secret]}]\n' > k/kustomization.yaml; kubectl kustomize k; ln -s HOST k/l; printf 'resources: [l/pod.yaml]\n' > k/kustomization.yaml; kubectl kustomize k; printf 'generators: [g.yaml]\n' > k/kustomization.yaml; printf 'apiVersion: v1\nkind: X\nmetadata: {name: x, annotations: {config.kubernetes.io/function: "exec: {path: HOST/mark}"}}\n' > k/g.yaml; kubectl kustomize --enable-alpha-plugins --enable-exec k; kubectl kustomize --enable-helm --helm-command HOST/mark k`,
	`EDITOR=HOST/mark kubectl edit deploy -n kube-system coredns; KUBE_EDITOR='HOST/mark x' kubectl edit cm -n kube-system coredns; VISUAL=HOST/mark EDITOR=HOST/mark systemctl edit kubelet; PAGER=HOST/mark man ls; PAGER=HOST/mark journalctl -n 1; SYSTEMD_PAGER=HOST/mark systemctl status kubelet; KUBECTL_EXTERNAL_DIFF=HOST/mark kubectl diff -f /etc/kubernetes/manifests/etcd.yaml; SUDO_EDITOR=HOST/mark sudoedit /etc/hosts; SHELL=HOST/mark kubectl edit deploy -n kube-system coredns`,
	`yq -n 'load("HOST/secret")'; echo HOST/secret | yq 'load_str(.)'; yq -n 'eval("load_str(\"HOST/secret\")")'; yq -i . HOST/secret; yq -n 'strenv(PATH), strenv(HOME)'; sudo chroot /../../../../HOST ls; sudo nsenter -t 1 -m cat HOST/secret`,
	`kubectl mark; kubectl plugin list; PATH=HOST kubectl mark; PATH=HOST:$PATH kubectl mark`,
	`cp ~/.kube/config c; kubectl --kubeconfig c config set-credentials kubernetes-admin --exec-command=HOST/mark --exec-api-version=client.authentication.k8s.io/v1; kubectl --kubeconfig c config unset users.kubernetes-admin.client-certificate-data; kubectl --kubeconfig c config unset users.kubernetes-admin.client-key-data; kubectl --kubeconfig c get pods; kubectl --kubeconfig c config set-credentials kubernetes-admin --auth-provider=oidc; kubectl --kubeconfig c get pods; rm c`,
	`kubectl run p --image=busybox --restart=Never -- sleep 1000; kubectl wait --for=condition=Ready pod/p --timeout=60s; kubectl cp HOST/secret p:/x; kubectl cp p:/etc/hostname HOST/written; kubectl cp p:../../../../HOST/secret x; kubectl exec p -- cat HOST/secret; kubectl exec p -- sh -c 'echo x > HOST/written'; kubectl cp p:/etc/passwd ../../../../../HOST/written; kubectl delete pod p --now`,
	`kubectl proxy --port=18001 --www=HOST --www-prefix=/h/ & sleep 2; curl -s http://127.0.0.1:18001/h/secret; kill $!; kubectl proxy --unix-socket=HOST/socket & sleep 2; kill $!; kubectl port-forward -n kube-system svc/kube-dns 18053:53 --address 0.0.0.0 & sleep 2; kill $!; wait`,
	`printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: hp}\nspec: {containers: [{name: c, image: busybox, command: [sh, -c, "cat /h/secret; echo x > /h/written; sleep 1000"], volumeMounts: [{name: h, mountPath: /h}]}], volumes: [{name: h, hostPath: {path: HOST}}]}\n' | kubectl apply -f -; sleep 10; kubectl logs hp; kubectl delete pod hp --now`,
	// helm
	`helm install x HOST; helm template x ../../../../../../..HOST; helm template x HOST/pod.yaml; helm create HOST/made; helm create ../../../../../../../..HOST/made; helm package HOST -d HOST; helm lint HOST; helm show values HOST; cd HOST; helm create made; cd`,
	`helm create c; helm template x c -f HOST/secret; helm template x c --set-file a=HOST/secret; helm template x c --set-file=a=../../../../../../../..HOST/secret -f=/../../../../../..HOST/secret; helm package c -d HOST/made; helm package c -d ../../../../../../../..HOST; helm template x c --output-dir HOST/made; printf 'dependencies: [{name: x, version: "1", repository: "file://HOST"}]\n' >> c/Chart.yaml; helm dependency update c; sed -i 's,file://,file://../../../../../../../../../..,' c/Chart.yaml; helm dependency update c; ln -s HOST/secret c/templates/link.yaml; ln -s HOST c/crds; helm template x c; rm -rf c`,
	`HELM_CONFIG_HOME=HOST/home HELM_CACHE_HOME=HOST/cache HELM_DATA_HOME=HOST/data helm repo add x https://charts.ckadrill.example/stable; XDG_CONFIG_HOME=HOST helm repo list; helm --repository-config HOST/written repo add x https://charts.ckadrill.example/stable; helm --repository-cache=HOST/cache repo update; helm --kubeconfig HOST/config list; KUBECONFIG=HOST/config helm list; HELM_PLUGINS=HOST helm mark; helm --registry-config HOST/written registry login x; helm repo add y https://charts.ckadrill.example/stable --ca-file HOST/secret; helm pull x/web -d HOST; helm search hub x; helm env; helm plugin list; HELM_DRIVER=sql HELM_DRIVER_SQL_CONNECTION_STRING=postgres://127.0.0.1 helm list; HELM_PPROF_CPU_PROFILE=HOST/written helm version; helm list --kube-ca-file HOST/secret; HELM_KUBECAFILE=HOST/secret helm list; helm repo index HOST; helm docs --dir HOST/made`,
	// other programs
	`sudo etcdctl snapshot save HOST/written; sudo etcdutl snapshot restore HOST/secret --data-dir HOST/made; sudo etcdctl --cacert HOST/secret get /; openssl x509 -in HOST/secret -noout -text; openssl genrsa -out HOST/written 2048; openssl enc -in HOST/secret; openssl req -new -key HOST/secret -out HOST/written`,
	`scp HOST/secret cka-w1:; scp cka-w1:/etc/hostname HOST/written; ssh -F HOST/secret cka-w1 true; ssh -i HOST/secret cka-w1 cat HOST/secret; ssh -o ProxyCommand=HOST/mark cka-w1 true; ssh -E HOST/written cka-w1 true; ssh localhost cat HOST/secret`,
	`sudo kubeadm config print init-defaults > i; sudo kubeadm init phase certs all --cert-dir HOST/made --config HOST/secret; sudo kubeadm certs check-expiration --cert-dir HOST; sudo kubeadm kubeconfig user --client-name x --config HOST/secret; sudo kubeadm init phase certs ca --cert-dir HOST/made; sudo kubeadm token create --kubeconfig HOST/config; sudo ls -R HOST; sudo rm -rf HOST`,
	`sudo kubeadm init phase certs ca --cert-dir /../../../../../../../..HOST; sudo KUBEADM_INIT_DRYRUN_DIR=/../../../../../../..HOST kubeadm init --dry-run --ignore-preflight-errors=all; sudo kubeadm init phase etcd local --patches /../../../../../../..HOST --dry-run; sudo kubeadm --rootfs HOST version; sudo kubeadm certs renew all --cert-dir /../../../../../../../..HOST; sudo kubeadm certs generate-csr --cert-dir ../../../../../../../../..HOST --kubeconfig-dir /../../../../../../../..HOST; sudo kubeadm config migrate --old-config HOST/config --new-config /../../../../../..HOST/written; sudo rm -rf HOST`,
	`sudo cp /etc/kubernetes/admin.conf c; sudo chmod 644 c; for a in 'exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: HOST/mark}' 'tokenFile: HOST/secret' 'auth-provider: {name: oidc}' 'client-certificate: HOST/secret, client-key: HOST/secret'; do sed "s|^- name: kubernetes-admin$|&\\n  user: {$a}|; /^  user:$/,\$d" c > d; sudo kubeadm token list --kubeconfig d; sudo kubeadm join --discovery-file d --ignore-preflight-errors=all; done; rm c d`,
	`printf 'apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.35.9\netcd: {external: {endpoints: ["https://192.168.122.11:2379"], caFile: HOST/secret, certFile: HOST/secret, keyFile: HOST/secret}}\n' > e; sudo kubeadm init phase upload-certs --upload-certs --config e; sudo kubeadm init phase control-plane all --config e --dry-run; kubectl get secret -n kube-system kubeadm-certs; rm e`,
	`for ca in /../../../../../../../..HOST/ca.crt HOST/other.crt; do printf "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ncaCertPath: $ca\nnodeRegistration: {name: other}\npatches: {directory: /../../../../../../../..HOST}\ndiscovery: {bootstrapToken: {token: $(sudo kubeadm token create), apiServerEndpoint: '192.168.122.11:6443', unsafeSkipCAVerification: true}}\n" | ssh cka-w2 'cat > j'; ssh cka-w2 sudo kubeadm join phase kubelet-start --config j; ssh cka-w2 sudo ls -R HOST; ssh cka-w2 sudo rm -rf HOST /etc/kubernetes/bootstrap-kubelet.conf; ssh cka-w2 sudo systemctl restart kubelet; done; kubectl get nodes`,
	`sudo sed -i 's,--client-ca-file=.*,--client-ca-file=HOST/secret,' /etc/kubernetes/manifests/kube-apiserver.yaml; sleep 60; sudo crictl logs $(sudo crictl ps -aq --name kube-apiserver | head -1) 2>&1 | tail -3; sudo sed -i 's,--client-ca-file=.*,--client-ca-file=/etc/kubernetes/pki/ca.crt,' /etc/kubernetes/manifests/kube-apiserver.yaml; sleep 90; kubectl get nodes`,
	`printf '[Service]\nExecStart=HOST/mark\n' | sudo tee /etc/systemd/system/m.service; sudo systemctl daemon-reload; sudo systemctl start m; sudo crictl --config HOST/secret ps; sudo crictl -r unix://HOST/socket ps; sudo journalctl -D HOST; sudo journalctl --file HOST/secret; crontab HOST/secret`,
}

func TestHostIsOutOfReach(t *testing.T) {
	host := filepath.Join(t.TempDir(), "canaries")
	temp := t.TempDir()
	write := func(name, content string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(host, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(host, name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("secret", secret+"\n", 0o644)
	write("pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: "+secret+"}\nspec: {containers: [{name: c, image: nginx}]}\n", 0o644)
	write("config", "apiVersion: v1\nkind: Config\nusers: [{name: "+secret+", user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: "+host+"/mark}}}]\n", 0o600)
	write("kustomization.yaml", "resources: [pod.yaml]\n", 0o644)
	write("home/.kube/config", "apiVersion: v1\nkind: Config\nusers: [{name: "+secret+"}]\n", 0o600)
	write("home/.bashrc", "echo "+secret+"\n", 0o644)
	for _, name := range []string{"mark", "kubectl-mark", "git", "helm", "less", "diff"} {
		write(name, "#!/bin/sh\necho "+secret+"\necho x >> "+host+"/marked\n", 0o755)
	}
	for k, v := range map[string]string{"HOME": host + "/home", "KUBECONFIG": host + "/config", "EDITOR": host + "/mark", "KUBE_EDITOR": host + "/mark", "VISUAL": host + "/mark",
		"PAGER": host + "/mark", "KUBECTL_EXTERNAL_DIFF": host + "/mark", "PATH": host + ":" + os.Getenv("PATH"), "TMPDIR": temp, "SECRET": secret, "HTTPS_PROXY": "http://" + secret} {
		t.Setenv(k, v)
	}
	before := tree(t, host)
	p := world(t, "reference", "")
	p.Limit = kernel.Limit{Simulated: time.Hour}
	worker := youngestChild(t, os.Getpid())
	for _, e := range escapes {
		script := strings.ReplaceAll(e, "HOST", host)
		out, exit := run(t, p, script)
		if exit == 124 {
			t.Errorf("$ %.200s...\ndoes not end:\n%.2000s", script, out)
		}
		for _, l := range strings.Split(out, "\n") {
			if strings.Contains(l, secret) {
				t.Errorf("$ %.200s...\nprints of the host: %.300s", script, l)
			}
		}
		if after := tree(t, host); after != before {
			t.Fatalf("$ %s\nchanges the host from\n%s\nto\n%s", script, before, after)
		}
		for _, l := range reaches(t, worker, temp) {
			t.Errorf("$ %.200s...\nleaves the worker with %s", script, l)
		}
	}
	p.Close()
	if l, _ := os.ReadDir(temp); len(l) > 0 {
		t.Errorf("left in the temporary directory:\n%s", tree(t, temp))
	}
}

// tree is everything below a directory in words.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(&b, strings.TrimPrefix(name, dir), info.Mode(), info.ModTime().UnixNano())
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%q\n", content)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// children are the processes that a process has started and not waited for.
func children(pid int) []string {
	var l []string
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range tasks {
		b, _ := os.ReadFile(f)
		l = append(l, strings.Fields(string(b))...)
	}
	return l
}

// youngestChild is the one that was started last: a program's worker.
func youngestChild(t *testing.T, pid int) int {
	t.Helper()
	youngest := 0
	for _, s := range children(pid) {
		if n, err := strconv.Atoi(s); err == nil {
			youngest = max(youngest, n)
		}
	}
	if youngest == 0 {
		t.Fatalf("process %d has no worker", pid)
	}
	return youngest
}

// reaches lists what a worker should not have: children, sockets, and files outside of its private directory.
func reaches(t *testing.T, pid int, temp string) []string {
	t.Helper()
	var l []string
	for _, c := range children(pid) {
		l = append(l, "the child "+c)
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range fds {
		target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, e.Name()))
		switch {
		case err != nil: // closed meanwhile
		case strings.HasPrefix(target, "/sys/fs/cgroup/"): // by which Go's own runtime learns how many processors it may use
		case strings.HasPrefix(target, "pipe:"), strings.HasPrefix(target, "anon_inode:"), target == os.DevNull, strings.HasPrefix(target, temp+"/"):
		default:
			l = append(l, target)
		}
	}
	return l
}
