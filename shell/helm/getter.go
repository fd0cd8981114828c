package helm

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"reflect"
	"unsafe"

	"helm.sh/helm/v4/pkg/getter"
)

// getterOption gives each of helm's HTTP clients a transport of the world. Upstream would make one that dials as the host;
// which certificates it wants is read from its options, whose type it does not export, when it dials.
func getterOption() getter.Option {
	of := reflect.TypeOf(getter.Option(nil))
	return reflect.MakeFunc(of, func(args []reflect.Value) []reflect.Value {
		o := args[0].Elem()
		t := &http.Transport{DisableCompression: true, DisableKeepAlives: true, DialContext: dial}
		t.DialTLSContext = func(ctx context.Context, netw, address string) (net.Conn, error) {
			c, err := tlsOptions(o)
			if err != nil {
				return nil, err
			}
			return dialTLS(ctx, netw, address, c)
		}
		f := o.FieldByName("transport")
		reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Set(reflect.ValueOf(t))
		return nil
	}).Interface().(getter.Option)
}

// tlsOptions is internal/tlsutil.NewTLSConfig for a getter's options.
func tlsOptions(o reflect.Value) (*tls.Config, error) {
	c := &tls.Config{InsecureSkipVerify: o.FieldByName("insecureSkipVerifyTLS").Bool()}
	cert, key, ca := o.FieldByName("certFile").String(), o.FieldByName("keyFile").String(), o.FieldByName("caFile").String()
	if cert != "" && key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if ca != "" {
		b, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AppendCertsFromPEM(b)
	}
	return c, nil
}
