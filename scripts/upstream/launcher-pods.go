// Renders launcher pods as KubeVirt's virt-controller does: cases as JSON on standard input, pods or errors on standard output.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	k8sv1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/kubevirt/pkg/hooks"
	"kubevirt.io/kubevirt/pkg/network/netbinding"
	netannotations "kubevirt.io/kubevirt/pkg/network/pod/annotations"
	netresources "kubevirt.io/kubevirt/pkg/network/resources"
	storageannotations "kubevirt.io/kubevirt/pkg/storage/pod/annotations"
	"kubevirt.io/kubevirt/pkg/testutils"
	"kubevirt.io/kubevirt/pkg/virt-controller/services"
)

type testCase struct {
	Name          string                        `json:"name"`
	Vmi           v1.VirtualMachineInstance     `json:"vmi"`
	Configuration v1.KubeVirtConfiguration      `json:"configuration"`
	Claims        []k8sv1.PersistentVolumeClaim `json:"claims"`
}

type result struct {
	Name  string     `json:"name"`
	Pod   *k8sv1.Pod `json:"pod,omitempty"`
	Error string     `json:"error,omitempty"`
}

func store[T any](items []T) cache.Store {
	s := cache.NewStore(cache.DeletionHandlingMetaNamespaceKeyFunc)
	for i := range items {
		if err := s.Add(&items[i]); err != nil {
			panic(err)
		}
	}
	return s
}

func indexer() cache.Store {
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	return cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, byNamespace)
}

func render(c *testCase) (r result) {
	r.Name = c.Name
	defer func() {
		if p := recover(); p != nil {
			r.Error = fmt.Sprintf("panic: %v", p)
		}
	}()
	kv := &v1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Name: "kubevirt", Namespace: "kubevirt"},
		Spec: v1.KubeVirtSpec{Configuration: c.Configuration}, Status: v1.KubeVirtStatus{DefaultArchitecture: "amd64"}}
	config, _, _ := testutils.NewFakeClusterConfigUsingKVWithCPUArch(kv, "amd64")
	generator := netannotations.NewGenerator(config)
	svc := services.NewTemplateService("virt-launcher:v1", 240, "/var/run/kubevirt", "/var/run/kubevirt-ephemeral-disks",
		"/var/run/kubevirt/container-disks", v1.HotplugDiskDir, "", store(c.Claims), nil, config, 107, "vmexport:v1",
		indexer(), store[k8sv1.Namespace](nil),
		services.WithSidecarCreator(func(vmi *v1.VirtualMachineInstance, _ *v1.KubeVirtConfiguration) (hooks.HookSidecarList, error) {
			return hooks.UnmarshalHookSidecarList(vmi)
		}),
		services.WithSidecarCreator(netbinding.NetBindingPluginSidecarList),
		services.WithNetMemoryCalculator(netresources.MemoryCalculator{}),
		services.WithAnnotationsGenerators(generator, storageannotations.Generator{}),
		services.WithNetTargetAnnotationsGenerator(generator),
	)
	pod, err := svc.RenderLaunchManifest(&c.Vmi)
	if err != nil {
		r.Error = err.Error()
		return
	}
	r.Pod = pod
	return
}

func main() {
	var cases []testCase
	if err := json.NewDecoder(os.Stdin).Decode(&cases); err != nil {
		panic(err)
	}
	results := []result{}
	for i := range cases {
		results = append(results, render(&cases[i]))
	}
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		panic(err)
	}
}
