package storefaults

import (
	"fmt"
	"strings"
	"testing"

	"tidemark/internal/testenv"
	"tidemark/tiering/objstore"
	"tidemark/tiering/objstore/objstoretest"
	"tidemark/tiering/objstore/remote"
)

// Whole segments up, one at a time, as the uploader sends them: with the SHA-256 known. Every object is deleted outside
// the measured time.
func BenchmarkPut64MiB(b *testing.B) {
	for _, driver := range []string{"s3", "minio"} {
		b.Run(driver, func(b *testing.B) {
			s := benchStore(b, driver)
			src := objstore.Bytes(objstoretest.Random(64 * mib))
			b.SetBytes(64 * mib)
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if err := s.Put(b.Context(), fmt.Sprintf("k%d", n), src, objstore.PutOptions{}); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := s.Delete(b.Context(), fmt.Sprintf("k%d", n)); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

// Ranges of the size that cold reads ask for.
func BenchmarkGet8MiB(b *testing.B) {
	for _, driver := range []string{"s3", "minio"} {
		b.Run(driver, func(b *testing.B) {
			s := benchStore(b, driver)
			if err := s.Put(b.Context(), "k", objstore.Bytes(objstoretest.Random(64*mib)), objstore.PutOptions{}); err != nil {
				b.Fatal(err)
			}
			dst := make([]byte, 8*mib)
			b.SetBytes(8 * mib)
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if err := s.ReadRange(b.Context(), "k", int64(n%7)*8*mib, dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchStore(b *testing.B, driver string) objstore.StoreCloser {
	b.Helper()
	srv := testenv.S3(b)
	s := openDriver(b, driver, strings.TrimPrefix(srv.Endpoint, "http://"), srv, "", remote.Options{})
	b.Cleanup(func() { _ = s.Close() })
	return s
}
