package kubeadm

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	_ "unsafe" // for go:linkname

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/sets"
	clientset "k8s.io/client-go/kubernetes"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	kubeadmscheme "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/scheme"
	kubeadmapiv1 "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/v1beta4"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/validation"
	"k8s.io/kubernetes/cmd/kubeadm/app/cmd/options"
	joinphases "k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/join"
	"k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/workflow"
	cmdutil "k8s.io/kubernetes/cmd/kubeadm/app/cmd/util"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"
	"k8s.io/kubernetes/cmd/kubeadm/app/discovery/token"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/apiclient"
	configutil "k8s.io/kubernetes/cmd/kubeadm/app/util/config"
	kubeconfigutil "k8s.io/kubernetes/cmd/kubeadm/app/util/kubeconfig"
)

// join is what the phases of "kubeadm join" share, as upstream's joinData.
type join struct {
	dirs
	cfg           *kubeadmapi.JoinConfiguration
	discoveryFile string               // the machine's name of a discovery file
	bootstrap     *clientcmdapi.Config // once it has been discovered
	initCfg       *kubeadmapi.InitConfiguration
	ignore        sets.Set[string]
	client        clientset.Interface
}

var _ joinphases.JoinData = (*join)(nil)

//go:linkname addJoinConfigFlags k8s.io/kubernetes/cmd/kubeadm/app/cmd.addJoinConfigFlags
func addJoinConfigFlags(flagSet *pflag.FlagSet, cfg *kubeadmapiv1.JoinConfiguration)

const adminConf = kubernetesDir + "/admin.conf"

// joinData is upstream's newJoinData.
func joinData(c *command, cmd *cobra.Command, args []string) (workflow.RunData, []string, error) {
	if err := validation.ValidateMixedArguments(cmd.Flags()); err != nil {
		return nil, nil, err
	}
	ext, err := joinFlags(c, cmd, args)
	if err != nil {
		return nil, nil, err
	}
	j := &join{dirs: dirs{c: c, kubeconfigs: kubernetesDir, certificates: certificatesDir}}
	controlPlane := boolFlag(cmd, options.ControlPlane)
	if _, err := c.p.Files.Stat(adminConf); err == nil && controlPlane {
		if j.bootstrap, err = loadKubeconfig(c.p, adminConf); err != nil {
			return nil, nil, fmt.Errorf("Error loading %s: %w", adminConf, err) //nolint:staticcheck // upstream's words
		}
	}
	if cmd.Flags().Lookup(options.FileDiscovery) == nil {
		if _, err := c.p.Files.Stat(adminConf); os.IsNotExist(err) {
			return nil, nil, fmt.Errorf("File %s does not exists. Please use 'kubeadm join phase control-plane-prepare' subcommands to generate it.", adminConf) //nolint:staticcheck // upstream's words
		}
		ext.Discovery.File = &kubeadmapiv1.FileDiscovery{KubeConfigPath: adminConf}
		ext.Discovery.BootstrapToken = nil
	}
	if err := j.load(cmd, ext); err != nil {
		return nil, nil, err
	}
	if j.ignore, err = validation.ValidateIgnorePreflightErrors(stringsFlag(cmd, options.IgnorePreflightErrors), j.cfg.NodeRegistration.IgnorePreflightErrors); err != nil {
		return nil, nil, err
	}
	j.cfg.NodeRegistration.IgnorePreflightErrors = sets.List(j.ignore)
	if j.cfg.ControlPlane != nil {
		if err := configutil.VerifyAPIServerBindAddress(j.cfg.ControlPlane.LocalAPIEndpoint.AdvertiseAddress); err != nil {
			return nil, nil, err
		}
	}
	j.patches = stringFlag(cmd, options.Patches)
	if j.patches == "" && j.cfg.Patches != nil {
		j.patches = j.cfg.Patches.Directory
	}
	if j.patches != "" {
		j.patches = c.p.Path(j.patches)
	}
	if cmdutil.ValueFromFlagsOrConfig(cmd.Flags(), options.DryRun, j.cfg.DryRun, boolFlag(cmd, options.DryRun)).(bool) {
		if j.dryRun, err = c.dryRunDir(constants.EnvVarJoinDryRunDir, "kubeadm-join-dryrun"); err != nil {
			return nil, nil, fmt.Errorf("could not create a temporary directory on dryrun: %w", err)
		}
	}
	return j, j.cfg.SkipPhases, nil
}

// joinFlags is the configuration that the flags make.
func joinFlags(c *command, cmd *cobra.Command, args []string) (*kubeadmapiv1.JoinConfiguration, error) {
	ext := &kubeadmapiv1.JoinConfiguration{ControlPlane: &kubeadmapiv1.JoinControlPlane{}}
	ext.Discovery.File, ext.Discovery.BootstrapToken = &kubeadmapiv1.FileDiscovery{}, &kubeadmapiv1.BootstrapTokenDiscovery{}
	kubeadmscheme.Scheme.Default(ext)
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	addJoinConfigFlags(flags, ext)
	if err := copyFlags(cmd.Flags(), flags); err != nil {
		return nil, err
	}
	kubeadmscheme.Scheme.Default(ext)
	d := &ext.Discovery
	if t := stringFlag(cmd, options.TokenStr); t != "" {
		if d.TLSBootstrapToken == "" {
			d.TLSBootstrapToken = t
		}
		if d.BootstrapToken.Token == "" {
			d.BootstrapToken.Token = t
		}
	}
	if d.File.KubeConfigPath == "" {
		d.File = nil
	}
	if len(args) == 0 {
		d.BootstrapToken = nil
	} else {
		if stringFlag(cmd, options.CfgPath) == "" && len(args) > 1 {
			c.warn("join.go", 382, "[preflight] WARNING: More than one API server endpoint supplied on command line %v. Using the first one.", args)
		}
		d.BootstrapToken.APIServerEndpoint = args[0]
	}
	if !boolFlag(cmd, options.ControlPlane) {
		plain := &kubeadmapiv1.JoinControlPlane{}
		kubeadmapiv1.SetDefaults_JoinControlPlane(plain)
		if *ext.ControlPlane != *plain {
			c.warn("join.go", 402, "[preflight] WARNING: --%s is also required when passing control-plane related flags such as [%s]", options.ControlPlane,
				strings.Join([]string{options.CertificateKey, options.APIServerAdvertiseAddress, options.APIServerBindPort}, ", "))
		}
		ext.ControlPlane = nil
	}
	return ext, nil
}

// load makes the configuration of the flags, or of the file that they name.
func (j *join) load(cmd *cobra.Command, ext *kubeadmapiv1.JoinConfiguration) error {
	c := j.c
	name := ext.NodeRegistration.Name
	socket, err := c.criSocket(cmd)
	if err != nil {
		return err
	}
	// What upstream would ask its host for is filled in.
	ext.NodeRegistration.CRISocket = socket
	if name == "" {
		ext.NodeRegistration.Name = c.hostName()
	}
	if cp := ext.ControlPlane; cp != nil {
		cp.LocalAPIEndpoint.AdvertiseAddress = c.advertised(cp.LocalAPIEndpoint.AdvertiseAddress)
	}
	file := stringFlag(cmd, options.CfgPath)
	if file == "" {
		if f := ext.Discovery.File; f != nil {
			f.KubeConfigPath = c.discoveryFile(f.KubeConfigPath)
		}
	} else if file, err = c.configuration(file); err != nil {
		return err
	}
	j.cfg, err = configutil.LoadOrDefaultJoinConfiguration(file, ext, configutil.LoadOrDefaultConfigurationOptions{SkipCRIDetect: true})
	if err != nil {
		return err
	}
	if name != "" {
		j.cfg.NodeRegistration.Name = name
	}
	if f := cmd.Flags().Lookup(options.NodeCRISocket); f != nil && f.Changed {
		j.cfg.NodeRegistration.CRISocket = socket
	}
	if f := j.cfg.Discovery.File; f != nil {
		j.discoveryFile = string(c.strip([]byte(f.KubeConfigPath)))
	}
	return nil
}

// discoveryFile is what stands for a discovery file that is none of the web: upstream wants to see that it exists.
func (c *command) discoveryFile(name string) string {
	if u, err := url.Parse(name); err != nil || u.Scheme != "" {
		return name
	}
	private := c.aside(name)
	if _, err := c.p.Files.Stat(c.p.Path(name)); !errors.Is(err, fs.ErrNotExist) && os.MkdirAll(filepath.Dir(private), 0o700) == nil {
		os.WriteFile(private, nil, 0o600) // a failure counts as a file that is missing
	}
	return private
}

// The methods of upstream's JoinData.

func (j *join) Cfg() *kubeadmapi.JoinConfiguration      { return j.cfg }
func (j *join) IgnorePreflightErrors() sets.Set[string] { return j.ignore }
func (j *join) OutputWriter() io.Writer                 { return os.Stdout }

func (j *join) CertificateKey() string {
	if j.cfg.ControlPlane == nil {
		return ""
	}
	return j.cfg.ControlPlane.CertificateKey
}

// discovered is the configuration for the TLS bootstrap with the machine's own credentials.
func (j *join) discovered() (*clientcmdapi.Config, error) {
	if j.bootstrap != nil {
		return j.bootstrap, nil
	}
	var client clientset.Interface
	if j.DryRun() {
		var err error
		if client, err = j.Client(); err != nil {
			return nil, fmt.Errorf("could not create a client for TLS bootstrap: %w", err)
		}
	}
	var err error
	j.bootstrap, err = j.c.discover(client, j.cfg, j.discoveryFile)
	return j.bootstrap, err
}

func (j *join) TLSBootstrapCfg() (*clientcmdapi.Config, error) {
	cfg, err := j.discovered()
	if err != nil {
		return nil, err
	}
	return j.c.connected(cfg), nil
}

// InitCfg is upstream's, with its fetchInitConfigurationFromJoinConfiguration.
func (j *join) InitCfg() (*kubeadmapi.InitConfiguration, error) {
	if j.initCfg != nil {
		return j.initCfg, nil
	}
	cfg, err := j.discovered()
	if err != nil {
		return nil, err
	}
	var client clientset.Interface
	if j.DryRun() {
		if client, err = j.Client(); err != nil {
			return nil, fmt.Errorf("could not get dry-run client for fetching InitConfiguration: %w", err)
		}
	} else if client, err = j.c.clientSet(cfg); err != nil {
		return nil, fmt.Errorf("unable to access the cluster: %w", err)
	}
	j.c.sayReading("preflight")
	initCfg, err := j.c.fetchConfiguration(client, false, false, true)
	if err != nil {
		return nil, fmt.Errorf("unable to fetch the kubeadm-config ConfigMap: %w", err)
	}
	if j.cfg.ControlPlane != nil {
		if err := refuseExternalEtcd(&initCfg.ClusterConfiguration); err != nil {
			return nil, err
		}
	}
	_, cluster, err := kubeconfigutil.GetClusterFromKubeConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("the TLS bootstrap kubeconfig is malformed: %w", err)
	}
	cfg.Clusters = map[string]*clientcmdapi.Cluster{initCfg.ClusterName: cluster}
	cfg.Contexts[cfg.CurrentContext].Cluster = initCfg.ClusterName
	initCfg.NodeRegistration = j.cfg.NodeRegistration
	if j.cfg.ControlPlane != nil {
		initCfg.LocalAPIEndpoint = j.cfg.ControlPlane.LocalAPIEndpoint
	}
	j.initCfg, j.certificates = initCfg, initCfg.CertificatesDir
	return initCfg, nil
}

func (j *join) Client() (clientset.Interface, error) {
	if !j.DryRun() {
		client, err := j.c.clientSetFromFile(adminConf)
		if err != nil {
			return nil, fmt.Errorf("[preflight] couldn't create Kubernetes client: %w", err)
		}
		return client, nil
	}
	dry := apiclient.NewDryRun()
	var cfg *clientcmdapi.Config
	if _, err := j.c.p.Files.Stat(path.Join(j.dryRun, "admin.conf")); err == nil {
		if cfg, err = loadKubeconfig(j.c.p, path.Join(j.dryRun, "admin.conf")); err != nil {
			return nil, err
		}
	} else if j.bootstrap != nil {
		cfg = j.bootstrap
	} else if t := j.cfg.Discovery.BootstrapToken; t != nil {
		cfg = token.BuildInsecureBootstrapKubeConfig(t.APIServerEndpoint)
	}
	if cfg != nil {
		if err := dry.WithKubeConfig(j.c.connected(cfg)); err != nil {
			return nil, err
		}
	}
	dry.WithDefaultMarshalFunction().WithWriter(os.Stdout).
		AppendReactor(dry.GetClusterInfoReactor()).AppendReactor(dry.GetKubeadmConfigReactor()).AppendReactor(dry.GetKubeadmCertsReactor()).
		AppendReactor(dry.GetKubeProxyConfigReactor()).AppendReactor(dry.GetKubeletConfigReactor()).
		AppendReactor(dry.GetNodeReactor()).AppendReactor(dry.PatchNodeReactor())
	j.client = dry.FakeClient()
	return j.client, nil
}

func (j *join) WaitControlPlaneClient() (clientset.Interface, error) {
	if j.cfg.ControlPlane == nil {
		return nil, errors.New("not a control plane")
	}
	return j.localClient(adminConf, &j.cfg.ControlPlane.LocalAPIEndpoint)
}

// localClient is a client of the API server of this machine, with the credentials of a kubeconfig of the machine.
func (d *dirs) localClient(kubeconfig string, endpoint *kubeadmapi.APIEndpoint) (clientset.Interface, error) {
	cfg, err := loadKubeconfig(d.c.p, kubeconfig)
	if err != nil {
		return nil, err
	}
	for _, cluster := range cfg.Clusters {
		cluster.Server = "https://" + net.JoinHostPort(endpoint.AdvertiseAddress, strconv.Itoa(int(endpoint.BindPort)))
	}
	return d.c.clientSet(cfg)
}
