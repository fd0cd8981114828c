package sim

import "ckadrill/sim/kernel"

const mebibyte = 1 << 20

// footprints are what daemons use in a small idle cluster, by program: estimates of what such clusters show. Servers of images say what
// they hold themselves.
var footprints = map[string]kernel.Footprint{
	"kube-apiserver":          {Cores: 0.042, Memory: 231 * mebibyte},
	"kube-controller-manager": {Cores: 0.014, Memory: 48 * mebibyte},
	"kube-scheduler":          {Cores: 0.006, Memory: 24 * mebibyte},
	"etcd":                    {Cores: 0.018, Memory: 41 * mebibyte},
	"kubelet":                 {Cores: 0.016, Memory: 38 * mebibyte},
	"containerd":              {Cores: 0.007, Memory: 46 * mebibyte},
	"kube-proxy":              {Cores: 0.001, Memory: 19 * mebibyte},
	"coredns":                 {Cores: 0.002, Memory: 14 * mebibyte},
	"flanneld":                {Cores: 0.005, Memory: 13 * mebibyte},
	"calico-node":             {Cores: 0.015, Memory: 92 * mebibyte},
	"calico-kube-controllers": {Cores: 0.002, Memory: 24 * mebibyte},
	"metrics-server":          {Cores: 0.004, Memory: 21 * mebibyte},
	"redis-server":            {Cores: 0.002, Memory: 4 * mebibyte},
	"apache-httpd":            {Cores: 0.001, Memory: 6 * mebibyte},
}
