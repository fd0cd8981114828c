package scenarios

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
)

// celCost bounds what one evaluation may cost, in CEL's own units.
const celCost = 1_000_000

var celEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("object", cel.DynType),
		cel.Variable("objects", cel.ListType(cel.DynType)),
		cel.Variable("now", cel.TimestampType),
		cel.HomogeneousAggregateLiterals(),
		cel.OptionalTypes(),
		ext.Strings(),
		ext.Sets(),
		ext.Lists(),
	)
})

// Compile checks and compiles the expression. Its error names line and column within the expression.
func (c *CEL) Compile() (cel.Program, error) {
	env, err := celEnvironment()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(c.Expression)
	if issues != nil && issues.Err() != nil {
		var l []string
		for _, e := range issues.Errors() {
			l = append(l, fmt.Sprintf("%d:%d: %s", e.Location.Line(), e.Location.Column()+1, e.Message))
		}
		return nil, errors.New("CEL: " + strings.Join(l, "; "))
	}
	if ast.OutputType() != cel.BoolType && ast.OutputType() != cel.DynType {
		return nil, fmt.Errorf("CEL: the expression yields %s, not true or false", ast.OutputType())
	}
	return env.Program(ast, cel.CostLimit(celCost), cel.InterruptCheckFrequency(100))
}
