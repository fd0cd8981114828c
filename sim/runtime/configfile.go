package runtime

import "fmt"

// DefaultConfigFile is the configuration that "containerd config default" prints, as far as it is simulated, with the
// cgroup driver that the installation guide of Kubernetes has people set.
func DefaultConfigFile(systemdCgroup bool) string {
	d := defaultConfig()
	return fmt.Sprintf(`version = 3
root = '%s'
state = '%s'
temp = ''
disabled_plugins = []
required_plugins = []
oom_score = 0
imports = []

[grpc]
  address = '%s'
  tcp_address = ''
  uid = 0
  gid = 0
  max_recv_message_size = 16777216
  max_send_message_size = 16777216

[debug]
  address = ''
  uid = 0
  gid = 0
  level = ''
  format = ''

[metrics]
  address = ''

[plugins]
  [plugins.'io.containerd.cri.v1.images']
    snapshotter = 'overlayfs'
    max_concurrent_downloads = 3
    image_pull_progress_timeout = '5m0s'

    [plugins.'io.containerd.cri.v1.images'.pinned_images]
      sandbox = '%s'

    [plugins.'io.containerd.cri.v1.images'.registry]
      config_path = '/etc/containerd/certs.d:/etc/docker/certs.d'

  [plugins.'io.containerd.cri.v1.runtime']
    enable_selinux = false
    max_container_log_line_size = %d
    tolerate_missing_hugetlb_controller = true

    [plugins.'io.containerd.cri.v1.runtime'.containerd]
      default_runtime_name = 'runc'

      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes]
        [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
          runtime_type = 'io.containerd.runc.v2'
          privileged_without_host_devices = false
          cgroup_writable = false
          base_runtime_spec = ''
          sandboxer = 'podsandbox'

          [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
            BinaryName = ''
            Root = ''
            ShimCgroup = ''
            SystemdCgroup = %t

    [plugins.'io.containerd.cri.v1.runtime'.cni]
      bin_dirs = ['/opt/cni/bin']
      conf_dir = '%s'
      max_conf_num = 1
      setup_serially = false
      conf_template = ''
      ip_pref = ''
      use_internal_loopback = false

  [plugins.'io.containerd.grpc.v1.cri']
    disable_tcp_service = true
    stream_server_address = '127.0.0.1'
    stream_server_port = '0'
    stream_idle_timeout = '4h0m0s'
    enable_tls_streaming = false
`, d.Root, d.State, d.Address, d.SandboxImage, d.MaxLine, systemdCgroup, d.CNIConfDir)
}
