#include "textflag.h"

// LANE sets the bits of 64 bytes, which are in Y0 and Y1, that are in a lane: a
// byte is when the entry of its low half in the table of the lane has the bit of
// its high half, which is in Y2 and Y3. Bytes that are not ASCII are in no lane.
#define LANE(table) \
	VPSHUFB  Y0, table, Y4 \
	VPSHUFB  Y1, table, Y5 \
	VPAND    Y2, Y4, Y4 \
	VPAND    Y3, Y5, Y5 \
	VPCMPEQB Y2, Y4, Y4 \
	VPCMPEQB Y3, Y5, Y5

#define STORE(at) \
	VPMOVMSKB Y4, AX \
	VPMOVMSKB Y5, DX \
	SHLQ      $32, DX \
	ORQ       AX, DX \
	MOVQ      DX, at(DI)

// func lanesAVX2(b *byte, blocks int, tables *laneTables, out *lanes)
TEXT ·lanesAVX2(SB), NOSPLIT, $0-32
	MOVQ           b+0(FP), SI
	MOVQ           blocks+8(FP), CX
	MOVQ           tables+16(FP), BX
	MOVQ           out+24(FP), DI
	VBROADCASTI128 (BX), Y8
	VBROADCASTI128 16(BX), Y9
	VBROADCASTI128 32(BX), Y10
	VBROADCASTI128 48(BX), Y11
	VBROADCASTI128 64(BX), Y12
	MOVL           $0x0f, AX
	VMOVD          AX, X13
	VPBROADCASTB   X13, Y13

next:
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VPSRLW  $4, Y0, Y2
	VPSRLW  $4, Y1, Y3
	VPAND   Y13, Y2, Y2
	VPAND   Y13, Y3, Y3
	VPSHUFB Y2, Y12, Y2
	VPSHUFB Y3, Y12, Y3
	LANE(Y8)
	STORE(0)
	LANE(Y9)
	VPOR    Y0, Y4, Y4 // what is not ASCII
	VPOR    Y1, Y5, Y5
	STORE(8)
	LANE(Y10)
	STORE(16)
	LANE(Y11)
	STORE(24)
	ADDQ    $64, SI
	ADDQ    $32, DI
	DECQ    CX
	JNZ     next
	VZEROUPPER
	RET

// LOOKUP finds the buckets of 64 bytes, at an offset, by their low and by their high
// halves; FIRST and ANOTHER put into Y0 to Y3 those that all bytes so far are in, two
// times eight buckets for the first 32 places and then for the others.
#define LOOKUP(offset) \
	VMOVDQU        offset(SI), Y4 \
	VMOVDQU        (offset+32)(SI), Y5 \
	VPSRLW         $4, Y4, Y6 \
	VPSRLW         $4, Y5, Y7 \
	VPAND          Y15, Y6, Y6 \
	VPAND          Y15, Y7, Y7 \
	VBROADCASTI128 (64*offset)(BX), Y12 \
	VBROADCASTI128 (64*offset+16)(BX), Y13 \
	VPSHUFB        Y4, Y12, Y8 \
	VPSHUFB        Y4, Y13, Y9 \
	VPSHUFB        Y5, Y12, Y10 \
	VPSHUFB        Y5, Y13, Y11 \
	VBROADCASTI128 (64*offset+32)(BX), Y12 \
	VBROADCASTI128 (64*offset+48)(BX), Y13 \
	VPSHUFB        Y6, Y12, Y4 \
	VPSHUFB        Y6, Y13, Y5 \
	VPSHUFB        Y7, Y12, Y6 \
	VPSHUFB        Y7, Y13, Y7

#define FIRST \
	VPAND Y4, Y8, Y0 \
	VPAND Y5, Y9, Y1 \
	VPAND Y6, Y10, Y2 \
	VPAND Y7, Y11, Y3

#define ANOTHER \
	VPAND Y4, Y8, Y8 \
	VPAND Y5, Y9, Y9 \
	VPAND Y6, Y10, Y10 \
	VPAND Y7, Y11, Y11 \
	VPAND Y8, Y0, Y0 \
	VPAND Y9, Y1, Y1 \
	VPAND Y10, Y2, Y2 \
	VPAND Y11, Y3, Y3

// func placesAVX2(b *byte, blocks int, tables *buckets, out *uint64)
TEXT ·placesAVX2(SB), NOSPLIT, $0-32
	MOVQ         b+0(FP), SI
	MOVQ         blocks+8(FP), CX
	MOVQ         tables+16(FP), BX
	MOVQ         out+24(FP), DI
	MOVL         $0x0f, AX
	VMOVD        AX, X15
	VPBROADCASTB X15, Y15
	VPXOR        X14, X14, X14

next:
	LOOKUP(0)
	FIRST
	LOOKUP(1)
	ANOTHER
	LOOKUP(2)
	ANOTHER
	LOOKUP(3)
	ANOTHER
	VPOR      Y1, Y0, Y0
	VPOR      Y3, Y2, Y2
	VPCMPEQB  Y14, Y0, Y0
	VPCMPEQB  Y14, Y2, Y2
	VPMOVMSKB Y0, AX
	VPMOVMSKB Y2, DX
	SHLQ      $32, DX
	ORQ       AX, DX
	NOTQ      DX
	MOVQ      DX, (DI)
	ADDQ      $64, SI
	ADDQ      $8, DI
	DECQ      CX
	JNZ       next
	VZEROUPPER
	RET
