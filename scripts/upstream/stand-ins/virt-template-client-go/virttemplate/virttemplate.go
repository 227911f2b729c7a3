// Package virttemplate has the client that an informer of virt-controller asks for; it is never made.
package virttemplate

import (
	"errors"

	"k8s.io/client-go/rest"
)

type Clientset struct{}

type TemplateV1beta1 struct{}

func NewForConfig(*rest.Config) (*Clientset, error) {
	return nil, errors.New("built without the client of VM templates")
}

func (*Clientset) TemplateV1beta1() *TemplateV1beta1 { return &TemplateV1beta1{} }

func (*TemplateV1beta1) RESTClient() rest.Interface { return nil }
