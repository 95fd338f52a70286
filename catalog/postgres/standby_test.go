package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/internal/testenv"
)

func TestAServerWithoutStandbyIsTold(t *testing.T) {
	s := openTest(t, testenv.Postgres(t), Options{})
	has, err := s.SynchronousStandby(t.Context())
	require.NoError(t, err)
	require.False(t, has)
}
