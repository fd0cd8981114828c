package yq

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/mikefarah/yq/v4/pkg/yqlib"
	"gopkg.in/op/go-logging.v1"

	"ckadrill/sim/kernel"
)

// tame puts the parser of every expression under the world's rule, also of those that an expression evaluates itself: what
// would read the host's environment reads that of the process, and what would read the host's files is refused.
var tame = sync.OnceFunc(func() {
	logging.SetLevel(logging.CRITICAL, "yq-lib")
	yqlib.InitExpressionParser()
	yqlib.ExpressionParser = parser{yqlib.ExpressionParser}
})

type parser struct {
	upstream yqlib.ExpressionParserInterface
}

// ParseExpression implements yqlib.ExpressionParserInterface.
func (e parser) ParseExpression(text string) (*yqlib.ExpressionNode, error) {
	n, err := e.upstream.ParseExpression(text)
	if err != nil {
		return nil, err
	}
	return n, e.confine(n)
}

func (e parser) confine(n *yqlib.ExpressionNode) error {
	if n == nil {
		return nil
	}
	if n.Operation != nil && n.Operation.OperationType != nil {
		switch t := n.Operation.OperationType.Type; {
		case t == "ENV":
			if err := e.replaceEnv(n); err != nil {
				return err
			}
		case strings.HasPrefix(t, "LOAD"):
			return fmt.Errorf("ckadrill does not simulate yq's load operators yet")
		case strings.HasPrefix(t, "ENVSUBST"):
			return fmt.Errorf("ckadrill does not simulate yq's envsubst yet")
		}
	}
	if err := e.confine(n.LHS); err != nil {
		return err
	}
	return e.confine(n.RHS)
}

// replaceEnv makes env(NAME) and strenv(NAME) the value that the variable has.
func (e parser) replaceEnv(n *yqlib.ExpressionNode) error {
	name, value := n.Operation.CandidateNode.Value, ""
	if p := kernel.Current(); p != nil {
		value = p.Getenv(name)
	}
	constant, err := e.upstream.ParseExpression("0")
	if err != nil {
		return err
	}
	node := &yqlib.CandidateNode{Kind: yqlib.ScalarNode, Tag: "!!str", Value: value}
	if asString := reflect.ValueOf(n.Operation.Preferences).FieldByName("StringValue"); !asString.IsValid() || !asString.Bool() {
		if value == "" {
			return fmt.Errorf("value for env variable '%v' not provided in env()", name)
		}
		d := yqlib.NewYamlDecoder(yqlib.NewDefaultYamlPreferences())
		if err := d.Init(strings.NewReader(value)); err != nil {
			return err
		}
		if node, err = d.Decode(); err != nil {
			return err
		}
	}
	constant.Operation.CandidateNode = node
	n.Operation = constant.Operation
	return nil
}
