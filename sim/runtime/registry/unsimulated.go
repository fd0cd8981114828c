package registry

// unsimulatedImages can be pulled and started, and their program then says that it is not simulated yet: better than a
// registry that denies what everybody knows to exist.
func unsimulatedImages() (l []*Image) {
	for _, i := range []struct {
		repository, program string
		size                int64
		port                string
		tags                []string
	}{
		{"docker.io/library/mysql", "mysqld", 230000000, "3306/tcp", []string{"latest", "9", "8", "8.4", "8.0", "5.7", "5.6"}},
		{"docker.io/library/mariadb", "mariadbd", 105000000, "3306/tcp", []string{"latest", "11", "11.4", "10", "10.11"}},
		{"docker.io/library/postgres", "postgres", 160000000, "5432/tcp", []string{"latest", "18", "17", "16", "15", "14", "13", "17-alpine", "16-alpine", "15-alpine", "alpine"}},
		{"docker.io/library/mongo", "mongod", 310000000, "27017/tcp", []string{"latest", "8", "8.0", "7", "7.0", "6", "6.0", "5.0", "4.4"}},
		{"docker.io/library/memcached", "memcached", 31000000, "11211/tcp", []string{"latest", "1", "1.6", "alpine", "1.6-alpine"}},
		{"docker.io/library/rabbitmq", "rabbitmq-server", 110000000, "5672/tcp", []string{"latest", "4", "3", "3-management", "4-management"}},
		{"docker.io/library/python", "python3", 360000000, "", []string{"latest", "3", "3.13", "3.12", "3.11", "3.9", "3.12-slim", "3.11-slim", "3-alpine", "3.12-alpine"}},
		{"docker.io/library/node", "node", 390000000, "", []string{"latest", "lts", "24", "22", "20", "18", "22-alpine", "20-alpine", "18-alpine"}},
		{"docker.io/library/golang", "go", 300000000, "", []string{"latest", "1", "1.25", "1.24", "1.23", "1.22", "1.25-alpine"}},
		{"docker.io/library/perl", "perl", 340000000, "", []string{"latest", "5", "5.40", "5.38", "5.36", "5.34", "5.34.0"}},
		{"docker.io/library/wordpress", "apache2-foreground", 240000000, "80/tcp", []string{"latest", "6", "6-apache", "4.8-apache"}},
		{"docker.io/library/tomcat", "catalina.sh", 200000000, "8080/tcp", []string{"latest", "11", "10", "9", "10.1"}},
		{"docker.io/library/haproxy", "haproxy", 45000000, "", []string{"latest", "3.2", "3.0", "2.8", "alpine"}},
		{"docker.io/library/registry", "registry", 9800000, "5000/tcp", []string{"latest", "3", "2", "2.8"}},
		{"docker.io/library/consul", "consul", 55000000, "8500/tcp", []string{"1.15", "1.15.4"}},
		{"docker.io/library/fluentd", "fluentd", 20000000, "", []string{"latest", "v1.16", "v1.17-debian-1"}},
		{"docker.io/fluent/fluentd", "fluentd", 20000000, "", []string{"latest", "v1.16", "v1.17-debian-1"}},
		{"docker.io/fluent/fluent-bit", "fluent-bit", 35000000, "", []string{"latest", "3.2", "4.0"}},
		{"docker.io/prom/prometheus", "prometheus", 120000000, "9090/tcp", []string{"latest", "v3.7.3", "v2.55.1"}},
		{"docker.io/prom/node-exporter", "node_exporter", 12000000, "9100/tcp", []string{"latest", "v1.9.1", "v1.8.2"}},
		{"docker.io/grafana/grafana", "grafana", 200000000, "3000/tcp", []string{"latest", "12.0.0", "11.0.0"}},
	} {
		c := Config{Env: []string{defaultPath}, Entrypoint: []string{"/usr/local/bin/" + i.program}}
		if i.port != "" {
			c.ExposedPorts = ports(i.port)
		}
		for n, tag := range i.tags { // other tags of a repository are other images, of other sizes
			l = append(l, &Image{Repository: i.repository, Tags: []string{tag}, Size: i.size + int64(n)*1711, Created: "2025-10-01T08:00:00Z", Config: c, Base: []string{"debian"},
				Files: []File{{Path: "/usr/local/bin/" + i.program, Program: i.program}}})
		}
	}
	return l
}
