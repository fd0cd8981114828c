package images

import (
	"bufio"
	"strings"
	"testing"
)

func FuzzNginxConfiguration(f *testing.F) {
	f.Add("events {}\nhttp { server { listen 80; location ~ \\.php$ { return 200 \"a b\"; } } }\n")
	f.Add("server {\n listen 80\n}")
	f.Add("a '\\'' ${x}{;}#")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := (&nginxParser{}).text("f", text)
		if err == nil {
			nginxCheck(l, "main")
		} else if !strings.Contains(err.Error(), "f") {
			t.Errorf("an error without a place: %v", err)
		}
	})
}

func FuzzRedisProtocol(f *testing.F) {
	f.Add("*2\r\n$3\r\nGET\r\n$1\r\na\r\n")
	f.Add("PING\r\n")
	f.Add("*1\r\n$-1\r\n")
	f.Add("*99999999\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		in := bufio.NewReader(strings.NewReader(text))
		for range 10 {
			if _, err := redisArgs(in); err != nil {
				break
			}
		}
		redisReply(bufio.NewReader(strings.NewReader(text)), false, "")
		redisWords(text)
	})
}
