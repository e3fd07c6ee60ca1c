"""Features and last down-sampling that `attach` must find in backbones of timm and torchvision."""

from typing import NamedTuple


class Expected(NamedTuple):
    """Channels, layout and prefix tokens of the features, and the last down-sampling.

    Attributes:
        stride: A module of the last down-sampling; "kept" where its stride stays, with a warning; "none" without one.
    """

    channels: int
    layout: str = "channels_first"
    prefix: int = 0
    stride: str = ""


TIMM: dict[str, Expected] = {
    # residual networks, their shortcuts and anti-aliasing
    "resnet18": Expected(512, stride="layer4.0.downsample.0"),
    "resnet50": Expected(2048, stride="layer4.0.conv2"),
    "resnet18d": Expected(512, stride="layer4.0.downsample.0"),
    "resnetaa50": Expected(2048, stride="layer4.0.aa"),
    "resnetblur50": Expected(2048, stride="layer4.0.aa"),
    "seresnet18": Expected(512, stride="layer4.0.conv1"),
    "ecaresnet26t": Expected(2048, stride="layer4.0.conv2"),
    "skresnet18": Expected(512, stride="layer4.0.conv1.paths.1.conv"),
    "resnest14d": Expected(2048, stride="layer4.0.avd_last"),
    "res2net50_26w_4s": Expected(2048, stride="layer4.0.convs.2"),
    "resnetv2_50d": Expected(2048, stride="stages.3.blocks.0.downsample.pool"),
    "nf_resnet26": Expected(2048, stride="stages.3.0.downsample.pool"),
    "gernet_s": Expected(1920, stride="stages.3.0.shortcut.conv"),
    "tresnet_m": Expected(2048, stride="body.layer4.0.conv2.aa"),
    "dla34": Expected(512, stride="level5.downsample"),
    "regnetx_002": Expected(368, stride="s4.b1.conv2.conv"),
    "regnety_002": Expected(368, stride="s4.b1.downsample.conv"),
    # plain, dense and inception networks
    "vgg11": Expected(512, stride="features.20"),
    "vgg16_bn": Expected(512, stride="features.43"),
    "densenet121": Expected(1024, stride="features.transition3.pool"),
    "dpn48b": Expected(832, stride="features.conv5_1.c1x1_w_s2.conv"),
    "ese_vovnet19b_dw": Expected(1024, stride="stages.3.pool"),
    "cspresnet50": Expected(1024, stride="stages.3.conv_down.conv"),
    "repvgg_a0": Expected(1280, stride="stages.3.0.conv_1x1.conv"),
    "xception41": Expected(2048, stride="blocks.11.shortcut.conv"),
    "inception_v3": Expected(2048, stride="Mixed_7a"),
    "inception_v4": Expected(1536, stride="features.18.branch2"),
    "hrnet_w18_small": Expected(2048, stride="kept"),
    # small networks
    "mobilenetv2_050": Expected(1280, stride="blocks.5.0.conv_dw"),
    "mobilenetv3_small_050": Expected(288, stride="blocks.4.0.conv_dw"),
    "mobilenetv4_conv_small": Expected(960, stride="blocks.3.0.dw_mid.conv"),
    "efficientnet_b0": Expected(1280, stride="blocks.5.0.conv_dw"),
    "efficientnet_blur_b0": Expected(1280, stride="blocks.5.0.aa"),
    "tf_efficientnet_b0": Expected(1280, stride="blocks.5.0.conv_dw"),
    "tf_efficientnet_cc_b0_4e": Expected(1280, stride="blocks.5.0.conv_dw"),
    "tf_efficientnetv2_b0": Expected(1280, stride="blocks.5.0.conv_dw"),
    "mixnet_s": Expected(1536, stride="blocks.5.0.conv_dw.4"),
    "ghostnet_050": Expected(480, stride="blocks.7.0.shortcut.0"),
    "lcnet_035": Expected(176, stride="blocks.5.0.conv_dw"),
    "rexnet_100": Expected(1280, stride="features.11.conv_dw.conv"),
    "hgnetv2_b0": Expected(1024, stride="stages.3.downsample.conv"),
    "convnext_atto": Expected(320, stride="stages.3.downsample.1"),
    "convnextv2_atto": Expected(320, stride="stages.3.downsample.1"),
    "mambaout_femto": Expected(288, layout="channels_last", stride="stages.3.downsample.conv"),
    # transformers and mixers
    "vit_tiny_patch16_224": Expected(192, layout="tokens", prefix=1, stride="none"),
    "vit_small_r26_s32_224": Expected(384, layout="tokens", prefix=1, stride="none"),
    "deit_tiny_distilled_patch16_224": Expected(192, layout="tokens", prefix=2, stride="none"),
    "beit_base_patch16_224": Expected(768, layout="tokens", prefix=1, stride="none"),
    "eva02_tiny_patch14_224": Expected(192, layout="tokens", prefix=1, stride="none"),
    "cait_xxs24_224": Expected(192, layout="tokens", prefix=1, stride="none"),
    "xcit_nano_12_p16_224": Expected(128, layout="tokens", prefix=1, stride="none"),
    "mixer_s32_224": Expected(512, layout="tokens", stride="none"),
    "convmixer_768_32": Expected(768, stride="none"),
    "swin_tiny_patch4_window7_224": Expected(768, layout="channels_last", stride="layers.3.downsample"),
    "swinv2_tiny_window8_256": Expected(768, layout="channels_last", stride="layers.3.downsample"),
    "levit_128s": Expected(384, layout="tokens", stride="stages.2.downsample.attn_downsample"),
    "twins_svt_small": Expected(512, layout="tokens", stride="patch_embeds.3"),
    "efficientformer_l1": Expected(448, layout="tokens", stride="kept"),
    "hiera_tiny_224": Expected(768, layout="tokens", stride="kept"),
    "coatnet_nano_rw_224": Expected(512, stride="kept"),
    "maxvit_nano_rw_256": Expected(512, stride="stages.3.blocks.0.conv.conv2_kxk"),
    "pvt_v2_b0": Expected(256, stride="stages.3.downsample.proj"),
    "mvitv2_tiny": Expected(768, layout="tokens", stride="stages.3.blocks.0.attn.pool_q"),
    "poolformer_s12": Expected(512, stride="stages.3.downsample.conv"),
    "mobilevit_xxs": Expected(320, stride="stages.4.0.conv2_kxk.conv"),
    "edgenext_xx_small": Expected(168, stride="stages.3.downsample.1"),
    "fastvit_t8": Expected(768, stride="stages.3.downsample.proj.0.small_conv.conv"),
    "davit_tiny": Expected(768, stride="stages.3.downsample.conv"),
}

TORCHVISION: dict[str, Expected] = {
    "alexnet": Expected(256, stride="features.12"),
    "vgg11": Expected(512, stride="features.20"),
    "vgg16_bn": Expected(512, stride="features.43"),
    "resnet18": Expected(512, stride="layer4.0.downsample.0"),
    "resnet50": Expected(2048, stride="layer4.0.conv2"),
    "resnext50_32x4d": Expected(2048, stride="layer4.0.conv2"),
    "densenet201": Expected(1920, stride="features.transition3.pool"),
    "mobilenet_v2": Expected(1280, stride="features.14.conv.1.0"),
    "mobilenet_v3_small": Expected(576, stride="features.9.block.1.0"),
    "efficientnet_b0": Expected(1280, stride="features.6.0.block.1.0"),
    "convnext_tiny": Expected(768, stride="features.6.1"),
    "regnet_y_400mf": Expected(440, stride="trunk_output.block4.block4-0.f.b.0"),
    "shufflenet_v2_x0_5": Expected(1024, stride="stage4.0.branch1.0"),
    "mnasnet0_5": Expected(1280, stride="layers.12.0.layers.3"),
    "squeezenet1_1": Expected(512, stride="features.8"),
    "googlenet": Expected(1024, stride="maxpool4"),
    "inception_v3": Expected(2048, stride="Mixed_7a"),
    "swin_t": Expected(768, stride="features.6"),
    "maxvit_t": Expected(512, stride="kept"),
    "vit_b_32": Expected(768, layout="tokens", prefix=1, stride="none"),
}

# Each is built like another backbone of these tables as far as `attach` can see, so it is tested in `make test-long`.
ALIKE = {
    *("resnetblur50", "resnetv2_50d", "tresnet_m", "regnety_002", "torchvision/resnext50_32x4d"),
    *("cspresnet50", "xception41", "inception_v4", "hrnet_w18_small", "torchvision/densenet201"),
    *("torchvision/inception_v3", "mobilenetv2_050", "torchvision/mobilenet_v2", "tf_efficientnet_b0"),
    *("tf_efficientnet_cc_b0_4e", "tf_efficientnetv2_b0", "mixnet_s", "ghostnet_050", "rexnet_100"),
    *("convnextv2_atto", "vit_small_r26_s32_224", "beit_base_patch16_224", "eva02_tiny_patch14_224"),
    *("cait_xxs24_224", "xcit_nano_12_p16_224", "swinv2_tiny_window8_256", "coatnet_nano_rw_224"),
    *("maxvit_nano_rw_256", "pvt_v2_b0", "poolformer_s12", "edgenext_xx_small", "fastvit_t8"),
}
