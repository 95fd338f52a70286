package s3

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

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
func OpenWith(ctx context.Context, u *url.URL, opts remote.Options) (objstore.StoreCloser, error) {
	at, err := remote.ParseURL(u, false, "region", "endpoint", "path_style", "checksums")
	if err != nil {
		return nil, err
	}
	pathStyle, err := at.Bool("path_style", at.Text("endpoint", "") != "")
	if err != nil {
		return nil, err
	}
	if opts.NativeChecksums, err = at.Bool("checksums", false); err != nil {
		return nil, err
	}
	region := at.Text("region", os.Getenv("AWS_REGION"))
	if region == "" {
		region = "us-east-1"
	}
	// The SDK's own client fetches credentials and reads AWS_CA_BUNDLE; objects go over our transport.
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(region))
	if err != nil {
		return nil, fmt.Errorf("AWS configuration: %w", err)
	}
	credCtx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := cfg.Credentials.Retrieve(credCtx); err != nil {
		return nil, fmt.Errorf("no AWS credentials for %s; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role: %w", u.Redacted(), err)
	}
	transport := remote.NewTransport(idleConns, tlsConfig(cfg.HTTPClient))
	client := awss3.NewFromConfig(cfg, func(o *awss3.Options) {
		if endpoint := at.Text("endpoint", ""); endpoint != "" {
			o.BaseEndpoint = aws.String(endpoint)
		}
		o.HTTPClient = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // a signature is good for one host only
		}}
		o.UsePathStyle = pathStyle
		o.Retryer = aws.NopRetryer{}
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		o.ContinueHeaderThresholdBytes = -1
	})
	opts.Prefix, opts.Code = at.Prefix, errorCode
	b := &bucket{client: client, name: at.Bucket}
	return remote.New(b, uploads{b}, transport, opts), nil
}

// tlsConfig gives the roots that the SDK was told to trust.
func tlsConfig(c aws.HTTPClient) *tls.Config {
	if b, ok := c.(*awshttp.BuildableClient); ok {
		return b.GetTransport().TLSClientConfig
	}
	return nil
}

func errorCode(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}
