package minio

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"

	miniogo "github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"tidemark/tiering/objstore"
	"tidemark/tiering/objstore/remote"
)

// idleConns is how many connections stay open between requests.
const idleConns = 64

// Open connects to the bucket that u names. It sends no request to it: a bucket that cannot be reached now is no reason
// not to start.
func Open(ctx context.Context, u *url.URL) (objstore.StoreCloser, error) {
	return OpenWith(ctx, u, remote.Options{})
}

// OpenWith is Open with other limits than the defaults; prefix, code and checksums are the URL's.
func OpenWith(_ context.Context, u *url.URL, opts remote.Options) (objstore.StoreCloser, error) {
	at, err := remote.ParseURL(u, true, "secure", "region", "checksums")
	if err != nil {
		return nil, err
	}
	secure, err := at.Bool("secure", true)
	if err != nil {
		return nil, err
	}
	if opts.NativeChecksums, err = at.Bool("checksums", false); err != nil {
		return nil, err
	}
	access, secret, err := accessKeys()
	if err != nil {
		return nil, fmt.Errorf("no credentials for %s; %w", u.Redacted(), err)
	}
	transport := remote.NewTransport(idleConns, nil)
	client, err := miniogo.NewCore(at.Host, &miniogo.Options{
		Creds:  credentials.NewStaticV4(access, secret, os.Getenv("AWS_SESSION_TOKEN")),
		Secure: secure,
		// A region that is named is not looked up by a request of minio-go's own.
		Region:     at.Text("region", "us-east-1"),
		Transport:  transport,
		MaxRetries: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("object store URL %q: %w", u.Redacted(), err)
	}
	opts.Prefix, opts.Code = at.Prefix, errorCode
	b := &bucket{client: client, name: at.Bucket}
	return remote.New(b, uploads{b}, transport, opts), nil
}

func accessKeys() (access, secret string, err error) {
	for _, names := range [][2]string{{"MINIO_ACCESS_KEY", "MINIO_SECRET_KEY"}, {"MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD"},
		{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}} {
		access, secret = os.Getenv(names[0]), os.Getenv(names[1])
		switch {
		case access != "" && secret != "":
			return access, secret, nil
		case access != "" || secret != "":
			return "", "", fmt.Errorf("set both %s and %s", names[0], names[1])
		}
	}
	return "", "", errors.New("set MINIO_ACCESS_KEY and MINIO_SECRET_KEY")
}

func errorCode(err error) string {
	var e miniogo.ErrorResponse
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
