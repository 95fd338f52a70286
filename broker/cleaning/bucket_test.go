package cleaning

import (
	"context"
	"sync"

	"tidemark/tiering/objstore"
)

// memStore is a bucket in memory.
type memStore struct {
	mu      sync.Mutex
	objects map[string][]byte
	hurt    func(key string, b []byte) // what a GET does to the bytes
	stall   func(key string)           // is called before a PUT is stored
	// Bytes that went through.
	read, put int64
}

func (m *memStore) Put(_ context.Context, key string, src objstore.Source, _ objstore.PutOptions) error {
	b := make([]byte, src.Size)
	if n, err := src.ReadAt(b, 0); int64(n) < src.Size {
		return err
	}
	if m.stall != nil {
		m.stall(key)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects[key] = b
	m.put += src.Size
	return nil
}

func (m *memStore) ReadRange(_ context.Context, key string, off int64, dst []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.objects[key]
	if !ok {
		return &objstore.Error{Op: "get", Key: key, Err: objstore.ErrNotFound}
	}
	if off+int64(len(dst)) > int64(len(b)) {
		return &objstore.Error{Op: "get", Key: key, Err: objstore.ErrRange}
	}
	copy(dst, b[off:])
	m.read += int64(len(dst))
	if m.hurt != nil {
		m.hurt(key, dst)
	}
	return nil
}

func (m *memStore) Stat(_ context.Context, key string) (objstore.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b, ok := m.objects[key]; ok {
		return objstore.Info{Key: key, Size: int64(len(b))}, nil
	}
	return objstore.Info{}, &objstore.Error{Op: "stat", Key: key, Err: objstore.ErrNotFound}
}

func (m *memStore) Delete(_ context.Context, key string, _ ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
	return nil
}

func (m *memStore) List(context.Context, string, string, int) ([]objstore.Info, error) {
	return nil, nil
}
